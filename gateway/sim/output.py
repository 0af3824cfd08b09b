"""One choice in the making: what of an answer has been said, and under which weights."""

from dataclasses import dataclass, field

from gateway.sim.engine import Answer, Token
from gateway.sim.personality import Json


@dataclass(slots=True)
class Output:
    """How far an answer has got. An abort changes how it ends, and drops what is left of it."""

    answer: Answer
    sent: int = 0
    spans: list[Json] = field(default_factory=list)
    """Versions of the weights that sampled what was sent, as vLLM reports them."""
    aborted: bool = False
    _text_sent: int = 0

    @property
    def index(self) -> int:
        """The number of this choice."""
        return self.answer.index

    @property
    def left(self) -> int:
        """Tokens yet to come."""
        return 0 if self.aborted else len(self.answer.tokens) - self.sent

    @property
    def finish(self) -> str | None:
        """Why it ended, or will."""
        return "abort" if self.aborted else self.answer.finish

    @property
    def stop_reason(self) -> int | str | None:
        """What stopped it, if it was a stop token or string."""
        return None if self.aborted else self.answer.stop_reason

    @property
    def said(self) -> tuple[Token, ...]:
        """The tokens so far."""
        return self.answer.tokens[: self.sent]

    @property
    def ids(self) -> list[int]:
        """The ids so far."""
        return [token_id for token_id, _ in self.said]

    def take(self, count: int, version: str) -> tuple[Token, ...]:
        """The next `count` tokens, sampled by weights `version`."""
        tokens = self.answer.tokens[self.sent : self.sent + count]
        start, self.sent = self.sent, self.sent + len(tokens)
        if tokens and self.spans and self.spans[-1]["version"] == version:
            self.spans[-1]["end"] = self.sent
        elif tokens:
            self.spans.append({"version": version, "start": start, "end": self.sent})
        return tokens

    def text(self, visible: str, *, last: bool) -> str:
        """The text not given out yet, of which `visible` is what the ids so far say; at the end, all that is left."""
        whole = self.answer.text or ""
        start = self._text_sent
        self._text_sent = len(whole) if last and not self.aborted else max(start, min(len(whole), len(visible)))
        return whole[start : self._text_sent]
