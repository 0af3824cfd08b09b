"""What the sessions of a gateway hold, counted as it comes and goes: to walk through them takes too long."""

from gateway.edge.session import Session


class Census:
    """Turns and tokens of the sessions that are held. Mutable: `Sessions` tells it who comes and goes."""

    def __init__(self) -> None:
        self.turns = 0
        self.tokens = 0
        """What each turn added: what of its prompt was rendered anew, and what was sampled."""
        self._held: dict[Session, tuple[int, int]] = {}

    def count(self, session: Session) -> None:
        """A session may have turns that it had not; each is looked at once."""
        turns, tokens = self._held.get(session, (0, 0))
        new = session.ledger.turns[turns:]
        added = sum(turn.added_tokens for turn in new)
        self._held[session] = turns + len(new), tokens + added
        self.turns, self.tokens = self.turns + len(new), self.tokens + added

    def leave(self, session: Session) -> None:
        """A session is not held any more."""
        turns, tokens = self._held.pop(session, (0, 0))
        self.turns, self.tokens = self.turns - turns, self.tokens - tokens
