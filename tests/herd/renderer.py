"""A renderer that has the ids of any prompt ready: that of a message ``n`` is the number n and then as many as wished."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.render.protocol import MessageDicts, ParsedResponse, TokenHolder
from tests.edge.house import IM_END


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a fixed text."""

    content: str | None = "Hello"
    reasoning_content: str | None = None
    tool_calls: Sequence[object] = ()


class ReadyRenderer:
    """Prompts of `length` ids, no two of which begin alike."""

    def __init__(self, length: int) -> None:
        self._rest = list(range(1000, 1000 + length - 1))

    def render_ids(
        self, messages: MessageDicts, *, tools: MessageDicts | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """The ids of the last message."""
        said = str(messages[-1]["content"])
        return [int(said), *self._rest] if said.isdecimal() else [1, 2, 3]

    def parse_response(self, token_ids: list[int]) -> ParsedResponse:
        """Always the same."""
        return Said()  # type: ignore[return-value]  # it has no calls

    def get_stop_token_ids(self) -> list[int]:
        """Qwen3's."""
        return [IM_END]

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: MessageDicts,
        *,
        tools: MessageDicts | None = None,
    ) -> Sequence[int] | TokenHolder | None:
        """What there was, and one id more."""
        return [*previous_prompt_ids, *previous_completion_ids, 7]
