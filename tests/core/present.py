"""What a session gives to its rollout as it is, where no earlier moment is read."""

from gateway.core.fate import moment_of
from gateway.core.ledger import Ledger
from gateway.core.segments import SessionAt
from gateway.core.types import JsonObject


def session_now(ledger: Ledger, session: JsonObject | None = None) -> SessionAt:
    """What a session has to give now."""
    return SessionAt(ledger, moment_of(ledger), session or {})
