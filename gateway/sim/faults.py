"""What can be made to go wrong with an answer."""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, replace

from gateway.sim.engine import Answer
from gateway.sim.personality import NOT_FOUND, Json, Refused, disabled, error

DEAD = error(500, "InternalServerError", "EngineCore encountered an issue. See stack trace (above) for the root cause.")
BUSY = error(
    503,
    "Service Unavailable",
    "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.",
)
_REFUSALS: dict[str | None, Refused] = {
    "error_500": Refused(500, DEAD),
    "error_503": Refused(503, BUSY),
    "scale_out_disabled": disabled(),
    "not_found": Refused(404, NOT_FOUND),
}
"""Faults that answer at once, with a status and a body."""
_ENDS = {"cut": None, "error_event": None, "no_finish": None, "stall": None, "abort": "abort"}
"""Faults that end the answer after n tokens, and the finish reason they leave."""
_CHANGES: dict[str, Json] = {
    "null_logprob": {"logprob": None},
    "sentinel_logprob": {"logprob": -9999.0},
    "positive_logprob": {"logprob": 0.25},
}
"""Faults in the logprob entry of token n, and what it says instead."""
_OTHERS = ("no_logprobs", "missing_logprob", "wrong_logprob_id", "extra_token", "garbage")
"""Null for all logprobs; no entry for the last token; an entry of token n that names the next id; token n a second
time, without an entry; after n events, one that is not JSON, and then the rest."""

RENDER_FAULT_KINDS = frozenset({*_REFUSALS, "cut", "no_token_ids"})
"""What can go wrong with a request to render: a status, a connection that is closed, an answer that lacks its ids."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing to go wrong with one request: at token `after`, or after so many tokens."""

    kind: str
    after: int = 0

    def strike(self) -> None:
        """Raises `Refused` when this fault leaves no answer at all."""
        if self.kind in _REFUSALS:
            refusal = _REFUSALS[self.kind]
            raise Refused(refusal.status, refusal.body)

    def spoil(self, answer: Answer) -> Answer:
        """The answer with this fault in it."""
        tokens, at = answer.tokens, min(self.after, len(answer.tokens) - 1)
        if not tokens and self.kind not in _ENDS:
            return answer
        match self.kind:
            case "no_logprobs":
                return replace(answer, with_logprobs=False)
            case "missing_logprob":
                return replace(answer, tokens=(*tokens[:-1], (tokens[-1][0], None)))
            case "extra_token":
                return replace(answer, tokens=(*tokens[: at + 1], (tokens[at][0], None), *tokens[at + 1 :]))
            case kind if kind in _ENDS:
                return replace(answer, tokens=tokens[: self.after], finish=_ENDS[kind], stop_reason=None)
        token_id, entry = tokens[at]
        named: Json = {"token_id": token_id + 1, "token": f"token_id:{token_id + 1}"}
        change = named if self.kind == "wrong_logprob_id" else _CHANGES.get(self.kind, {})
        spoilt = entry and entry | {key: value for key, value in change.items() if key in entry}
        return replace(answer, tokens=(*tokens[:at], (token_id, spoilt), *tokens[at + 1 :]))


class Faults(deque[Fault]):
    """Faults to come, one per request, oldest first; of requests to generate unless the `kinds` are others."""

    def __init__(self, kinds: Collection[str | None] = frozenset({*_REFUSALS, *_ENDS, *_CHANGES, *_OTHERS})) -> None:
        super().__init__()
        self._kinds = kinds

    def inject(self, kind: str, *, after: int = 0, times: int = 1) -> None:
        """Let the next `times` requests go wrong. An unknown kind is a ``ValueError``."""
        if kind not in self._kinds:
            raise ValueError(kind)
        self.extend([Fault(kind, after)] * times)
