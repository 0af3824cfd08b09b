"""What an agent is answered in OpenAI's chat dialect, typed, as ``/openapi.json`` describes it.

`gateway.wire.chat_answer` and `chat_stream` write it, and the tests hold these types to what they write.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from gateway.wire.sampling_body import CLOSED, Count, TokenId


@with_config(CLOSED)
class AnsweredFunction(TypedDict):
    """What the model calls."""

    name: str
    arguments: str
    """A JSON object, as text."""


@with_config(CLOSED)
class AnsweredCall(TypedDict):
    """A tool call."""

    id: str
    type: Literal["function"]
    function: AnsweredFunction


@with_config(CLOSED)
class AnswerMessage(TypedDict):
    """What the model said. Reasoning stands under both names that clients read."""

    role: Literal["assistant"]
    content: str | None
    reasoning_content: NotRequired[str]
    reasoning: NotRequired[str]
    tool_calls: NotRequired[list[AnsweredCall]]


@with_config(CLOSED)
class Alternative(TypedDict):
    """A token, and its natural-log probability."""

    token: str
    logprob: Annotated[float, Field(le=0)]
    bytes: list[Annotated[int, Field(ge=0, le=255)]]


@with_config(CLOSED)
class SampledToken(Alternative):
    """A sampled token, and the likeliest in its place."""

    top_logprobs: list[Alternative]


@with_config(CLOSED)
class Logprobs(TypedDict):
    """One entry for each sampled id."""

    content: list[SampledToken]


FinishReason = Literal["stop", "length", "tool_calls"]


@with_config(CLOSED)
class Choice(TypedDict):
    """One answer."""

    index: Count
    message: AnswerMessage
    logprobs: Logprobs | None
    finish_reason: FinishReason
    token_ids: NotRequired[list[TokenId]]
    """With `return_token_ids`: what was sampled."""


@with_config(CLOSED)
class Usage(TypedDict):
    """Tokens; the prompt is counted once for all choices."""

    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count


@with_config(CLOSED)
class ChatCompletion(TypedDict):
    """The answer of one call."""

    id: str
    object: Literal["chat.completion"]
    created: Count
    model: str
    choices: list[Choice]
    usage: Usage
    prompt_token_ids: NotRequired[list[TokenId]]
    """With `return_token_ids`."""


@with_config(CLOSED)
class FunctionDelta(TypedDict):
    """More of a call; its name comes first."""

    name: NotRequired[str]
    arguments: str


@with_config(CLOSED)
class CallDelta(TypedDict):
    """A call that begins, or more of one."""

    index: Count
    id: NotRequired[str]
    type: NotRequired[Literal["function"]]
    function: FunctionDelta


@with_config(CLOSED)
class Delta(TypedDict, total=False):
    """What is new."""

    role: Literal["assistant"]
    content: str
    reasoning_content: str
    reasoning: str
    tool_calls: list[CallDelta]


@with_config(CLOSED)
class ChunkChoice(TypedDict):
    """More of one answer."""

    index: Count
    delta: Delta
    logprobs: Logprobs | None
    finish_reason: FinishReason | None
    token_ids: NotRequired[list[TokenId]]


@with_config(CLOSED)
class ChatCompletionChunk(TypedDict):
    """The data of one event of a stream. The last event is `[DONE]`, or an error in its place."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: Count
    model: str
    choices: list[ChunkChoice]
    usage: NotRequired[Usage | None]
    prompt_token_ids: NotRequired[list[TokenId]]
