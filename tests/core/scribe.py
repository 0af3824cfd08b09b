"""A renderer whose ids tell all that a message says: one id for each distinct field."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.core.types import JsonObject, Message

CLOSE, OPEN = 0, 1


@dataclass
class Scribe:
    """Renders exactly and bridges always, unless it has a flaw."""

    flaw: str | None = None
    """`declines`, `drops` (the last sampled id), `drops all` (everything known), or `silent` (adds nothing)."""
    _words: dict[object, int] = field(default_factory=dict)

    def render(self, messages: Sequence[Message], tools: Sequence[JsonObject]) -> list[int]:
        return self.write(messages, tools)

    def bridge(
        self,
        prompt_ids: list[int],
        sampled: list[int],
        new: Sequence[Message],
        tools: Sequence[JsonObject],
        history: Sequence[Message],  # it writes a message the same way wherever that stands
    ) -> list[int] | None:
        known = prompt_ids + sampled
        prompt_ids.clear()  # what a renderer does to its arguments must not matter
        match self.flaw:
            case "declines":
                return None
            case "drops":
                known.pop()
            case "drops all":
                known.clear()
            case "silent":
                return known
        return known + self.write_more(new)

    def write(self, messages: Sequence[Message], tools: Sequence[JsonObject]) -> list[int]:
        """The ids of a whole history."""
        return [self._word(repr(tools)), *self.write_more(messages)]

    def write_more(self, messages: Sequence[Message]) -> list[int]:
        """The ids of messages and of the opening of an answer."""
        ids = []
        for said in messages:
            calls = [part for call in said.tool_calls for part in (call.id, call.name, call.arguments)]
            fields = [said.role, said.content, said.reasoning, said.tool_call_id, *calls]
            ids += [*map(self._word, fields), CLOSE]
        return [*ids, OPEN]

    def _word(self, text: object) -> int:
        return self._words.setdefault(text, len(self._words) + 2)
