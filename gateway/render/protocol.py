"""The contract that a renderer fulfils: four methods, with the names of PrimeIntellect's ``renderers``.

Any object that has them works as it is, be it from that package or your own. Messages and tools are plain
OpenAI dictionaries; a tool call's arguments are JSON text.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

MessageDict = dict[str, object]
MessageDicts = list[MessageDict]


class ParsedCall(Protocol):
    """One tool call as the renderer found it; may also carry ``raw``, ``status``, ``token_span`` and ``id``."""

    @property
    def name(self) -> str | None:
        """The function that is called."""

    @property
    def arguments(self) -> object:
        """A dictionary, or JSON text."""


class ParsedResponse(Protocol):
    """A completion as a message."""

    @property
    def content(self) -> str | None:
        """Text for the user."""

    @property
    def reasoning_content(self) -> str | None:
        """What was thought before."""

    @property
    def tool_calls(self) -> Sequence[ParsedCall]:
        """Calls, in the order in which they were made."""


class ParsedDelta(ParsedResponse, Protocol):
    """What more of a completion can be told: a piece of reasoning, a piece of content, or whole calls."""


class StreamParser(Protocol):
    """One completion, read as its ids come.

    However the ids are cut into pieces, the deltas join to the same message, and that is what `finish` returns.
    """

    def feed(self, token_ids: Sequence[int]) -> Sequence[ParsedDelta]:
        """Take the next ids; what they make certain, in the order in which it was said."""

    def finish(self) -> ParsedResponse:
        """No more ids will come: the whole message, which begins with what the deltas told.

        May carry ``flags``: what was odd about the completion.
        """


@runtime_checkable
class Streaming(Protocol):
    """What a `Renderer` may have besides: then its parser serves answers that are streamed and those that are not."""

    def stream_parser(self, tools: MessageDicts | None) -> StreamParser:
        """A parser for one completion; ``prompt_ids`` are passed by keyword where accepted.

        A stream is read on the event loop, while other methods of the renderer may run on another thread.
        """


class TokenHolder(Protocol):
    """A result that carries its ids beside other things."""

    token_ids: Sequence[int]


@runtime_checkable
class Renderer(Protocol):
    """Token ids for messages, and a message for token ids.

    One thread at a time calls it, unless `calls_at_once` says more, and no other renderer of the same tokenizer
    meanwhile. One that encodes with other options than `Tokenizer` names, such as ``split_special_tokens``, needs a
    tokenizer of its own.

    May have ``stop_strings`` beside its stop ids, texts of several tokens that end the model's turn;
    ``supports_tools``, ``False`` where it cannot read calls; ``calls_at_once``, how many threads may call it, for one
    that waits for a network and encodes nothing itself; and ``effective_thinking_retention``, which reasoning of
    earlier turns its bridges keep.
    """

    def render_ids(
        self, messages: MessageDicts, *, tools: MessageDicts | None = None, add_generation_prompt: bool = False
    ) -> Sequence[int]:
        """The ids of a history; with `add_generation_prompt`, up to where the model's answer begins."""

    def parse_response(self, token_ids: list[int]) -> ParsedResponse:
        """The message that a completion says; `tools` and `prompt_ids` are passed by keyword where accepted."""

    def get_stop_token_ids(self) -> Sequence[int]:
        """The ids that end the model's turn."""

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: MessageDicts,
        *,
        tools: MessageDicts | None = None,
    ) -> Sequence[int] | TokenHolder | None:
        """The next prompt: ``previous_prompt_ids + previous_completion_ids`` and then the new messages.

        ``None`` means that this cannot be proven, and the history is to be rendered in full. `history`, the messages
        up to and with the answer that was sampled, is passed by keyword where accepted.
        """


class Tokenizer(Protocol):
    """What the gateway itself needs of a tokenizer, which must be hashable and weakly referable, too: it has a lock."""

    name_or_path: str

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Ids of a text."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Text of ids."""

    def get_vocab(self) -> dict[str, int]:
        """Every token and its id."""
