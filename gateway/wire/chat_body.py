"""What an agent sends in OpenAI's chat dialect, typed, as ``/openapi.json`` describes it.

`gateway.wire.chat` reads it, and the tests hold these types to what is read. Nothing is checked by them at run time.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from gateway.wire.sampling_body import OPEN, SamplingFields, Signed

_Name = Annotated[str, Field(max_length=512)]
_FullName = Annotated[str, Field(min_length=1, max_length=512)]
_Text = Annotated[str, Field(min_length=1)]


@with_config(OPEN)
class TextPart(TypedDict):
    """A part of a message. Parts that are no text are refused."""

    type: Literal["text", "input_text", "output_text"]
    text: NotRequired[str | None]


Content = str | list[TextPart] | None


@with_config(OPEN)
class SaidMessage(TypedDict):
    """What stands around the model's own words."""

    role: Literal["system", "developer", "user"]
    content: NotRequired[Content]
    name: NotRequired[_Name | None]


@with_config(OPEN)
class ToolMessage(TypedDict):
    """The result of a call."""

    role: Literal["tool"]
    tool_call_id: _Name
    content: NotRequired[Content]
    name: NotRequired[_Name | None]


@with_config(OPEN)
class CalledFunction(TypedDict):
    """What is called, and with what."""

    name: _FullName
    arguments: NotRequired[str | dict[str, object] | None]
    """JSON as text, as it came; an object is taken, too."""


@with_config(OPEN)
class ReplayedCall(TypedDict):
    """A tool call of an earlier answer."""

    id: NotRequired[_Name | None]
    type: NotRequired[Literal["function"]]
    function: CalledFunction


@with_config(OPEN)
class ReplayedAnswer(TypedDict):
    """An earlier answer, sent back. Reasoning may be left out, arguments written anew."""

    role: Literal["assistant"]
    content: NotRequired[Content]
    reasoning_content: NotRequired[str | None]
    reasoning: NotRequired[str | None]
    tool_calls: NotRequired[Annotated[list[ReplayedCall], Field(max_length=4096)] | None]


@with_config(OPEN)
class Function(TypedDict):
    """What the model may call."""

    name: _FullName
    description: NotRequired[str | None]
    parameters: NotRequired[dict[str, object] | None]
    """A JSON schema."""


@with_config(OPEN)
class Tool(TypedDict):
    """A tool: a function, and nothing else."""

    type: Literal["function"]
    function: Function


@with_config(OPEN)
class NamedFunction(TypedDict):
    """One of the tools."""

    name: _FullName


@with_config(OPEN)
class NamedTool(TypedDict):
    """The tool that must be called."""

    type: Literal["function"]
    function: NamedFunction


@with_config(OPEN)
class StreamOptions(TypedDict):
    """What a stream has beside the answer."""

    include_usage: NotRequired[bool | None]


@with_config(OPEN)
class TextFormat(TypedDict):
    """Whatever the model says."""

    type: Literal["text"]


@with_config(OPEN)
class ObjectFormat(TypedDict):
    """A JSON object."""

    type: Literal["json_object"]
    schema: NotRequired[dict[str, object] | None]


@with_config(OPEN)
class NamedSchema(TypedDict):
    """A JSON schema, and more that is passed over."""

    schema: dict[str, object]


@with_config(OPEN)
class SchemaFormat(TypedDict):
    """JSON by a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


@with_config(OPEN)
class JsonOutput(TypedDict):
    """JSON by a schema, which is an object or text."""

    json: _Text | dict[str, object]


@with_config(OPEN)
class RegexOutput(TypedDict):
    """What matches."""

    regex: _Text


@with_config(OPEN)
class ChoiceOutput(TypedDict):
    """One of some texts."""

    choice: Annotated[list[str], Field(min_length=1, max_length=4096)]


@with_config(OPEN)
class GrammarOutput(TypedDict):
    """What a grammar makes."""

    grammar: _Text


@with_config(OPEN)
class AnyObjectOutput(TypedDict):
    """Any JSON object."""

    json_object: Literal[True]


@with_config(OPEN)
class TaggedOutput(TypedDict):
    """What a structural tag says."""

    structural_tag: _Text


StructuredOutputs = JsonOutput | RegexOutput | ChoiceOutput | GrammarOutput | AnyObjectOutput | TaggedOutput


@with_config(OPEN)
class ChatRequest(SamplingFields):
    """One turn. Fields that are not named here are ignored, but for older words for what is: these are refused."""

    messages: Annotated[list[SaidMessage | ReplayedAnswer | ToolMessage], Field(min_length=1, max_length=16_384)]
    model: NotRequired[_Name | None]
    tools: NotRequired[Annotated[list[Tool], Field(max_length=512)] | None]
    tool_choice: NotRequired[Literal["auto", "none", "required"] | NamedTool | None]
    """`required`, or one of the tools by its name, binds the answer."""
    response_format: NotRequired[TextFormat | ObjectFormat | SchemaFormat | None]
    """Binds the answer, so it does not go with a forced call."""
    structured_outputs: NotRequired[StructuredOutputs | None]
    """Binds the answer: one of these kinds, as vLLM has them."""
    n: NotRequired[Annotated[int, Field(ge=1, le=128)] | None]
    logprobs: NotRequired[bool | None]
    top_logprobs: NotRequired[Annotated[int, Field(ge=0, le=20)] | None]
    """How many alternatives for each token; needs `logprobs`."""
    stream: NotRequired[bool | None]
    stream_options: NotRequired[StreamOptions | None]
    return_token_ids: NotRequired[bool | None]
    chat_template_kwargs: NotRequired[dict[str, object] | None]
    """At most 16,384 bytes of JSON."""
    priority: NotRequired[Signed | None]
    cache_salt: NotRequired[Annotated[str, Field(min_length=1, max_length=1024)] | None]
    session_id: NotRequired[_Name | None]
    """Names the session where the path and `X-Session-ID` do not."""
    prompt_cache_key: NotRequired[str | None]
    """Names the session where nothing else does, if it can be an id."""
