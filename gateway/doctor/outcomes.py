"""What became of each call of an agent."""

from collections.abc import Sequence
from typing import Literal, get_args

from gateway.core.ledger import Ledger
from gateway.doctor.recorder import Call

Outcome = Literal["answered", "replayed", "refused", "failed", "left"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class Outcomes:
    """Calls beside what was recorded of them."""

    def __init__(self, ledgers: Sequence[Ledger]) -> None:
        self._turns = {turn.id: turn for ledger in ledgers for turn in ledger.turns}

    def of(self, call: Call) -> Outcome:
        """Answered anew or once more, refused (4xx), failed, be it amid a stream, or left by its client."""
        if call.status is None:
            return "left"
        if call.status >= 400:
            return "refused" if call.status < 500 else "failed"
        turns = [self._turns.get(turn_id) for turn_id in call.turn_ids]
        if turns and all(turn is not None and turn.status == "complete" for turn in turns):
            return "replayed" if call.replayed else "answered"
        return "left" if any(turn is not None and turn.ended_by == "client_gone" for turn in turns) else "failed"

    def is_good(self, call: Call) -> bool:
        """Whether its client has got what it asked for."""
        return self.of(call) in ("answered", "replayed")

    def error(self, call: Call) -> tuple[int | None, str, str]:
        """Status, path and message of a call that was not answered."""
        if call.refusal:
            return call.status, call.path, call.refusal
        text = "its client left before the end" if self.of(call) == "left" else "broken off amid the answer"
        return call.status, call.path, text
