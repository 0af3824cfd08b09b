"""Pauses in force: whose they are, what they hold, and when their leases end."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Mode = Literal["hold", "drain", "cut"]
"""What a pause does with calls under way: leaves them alone, waits for them, or ends them, to be carried on later."""
Scope = Literal["all", "new_sessions"]
"""Whose turns a pause holds: everybody's, or only those of sessions that have none yet."""

CLIENT_PATIENCE_S = {"undici, which is Node's fetch": 300.0, "the SDKs of OpenAI and Anthropic": 600.0}
"""How long clients wait, as they come, for an answer that is not streamed."""
_STRICTNESS: dict[Mode, int] = {"hold": 0, "drain": 1, "cut": 2}


@dataclass(frozen=True, slots=True, eq=False)
class Pause:
    """One owner's pause."""

    owner: str
    mode: Mode
    scope: Scope
    since_s: float
    """When it began; to renew it changes nothing in that."""
    until_s: float
    """When its lease ends."""


class PausesInForce:
    """The pauses in force, at most one of each owner; the strictest decides. Mutable; whoever calls brings the time."""

    def __init__(self) -> None:
        self._pauses: dict[str, list[Pause]] = {}
        # Each owner's, the one in force last; before it those that it is to replace, and does not if it is refused.

    def __iter__(self) -> Iterator[Pause]:
        """In the order in which their owners came."""
        return iter([pauses[-1] for pauses in self._pauses.values()])

    def of(self, owner: str) -> Pause | None:
        """An owner's pause."""
        pauses = self._pauses.get(owner)
        return pauses[-1] if pauses else None

    @property
    def held(self) -> Scope | None:
        """Whose turns are held; ``None`` when nothing is in force."""
        scopes = {pause.scope for pause in self}
        return "all" if "all" in scopes else "new_sessions" if scopes else None

    @property
    def modes(self) -> set[Mode]:
        """The modes of those that hold everybody."""
        return {pause.mode for pause in self if pause.scope == "all"}

    @property
    def mode(self) -> Mode | None:
        """The strictest of those; ``None`` without any."""
        return max(self.modes, key=_STRICTNESS.__getitem__, default=None)

    @property
    def since_s(self) -> float | None:
        """When the first of them began."""
        return min((pause.since_s for pause in self), default=None)

    @property
    def until_s(self) -> float | None:
        """When the last of them ends, if nobody ends or renews any."""
        return max((pause.until_s for pause in self), default=None)

    @property
    def next_end_s(self) -> float | None:
        """When the next lease ends."""
        return min((pause.until_s for pause in self), default=None)

    def warnings(self) -> list[str]:
        """What is to be said of how long turns may be held."""
        lasts_s = (self.until_s or 0.0) - (self.since_s or 0.0)
        if not (clients := impatient(lasts_s)):
            return []
        lasts = f"turns may be held for {lasts_s:g} s, until the lease ends"
        return [f"{lasts}: clients that do not stream give up before, as they come: {', '.join(clients)}"]

    def begin(self, owner: str, mode: Mode, scope: Scope, *, lease_s: float, now_s: float) -> Pause:
        """Begin an owner's pause, or renew it: it has this mode, scope and lease from now on."""
        before = self.of(owner)
        pause = Pause(owner, mode, scope, before.since_s if before else now_s, now_s + lease_s)
        self._pauses.setdefault(owner, []).append(pause)
        return pause

    def settle(self, pause: Pause) -> None:
        """It is as it was asked for: what its owner had before is over for good."""
        pauses = self._pauses.get(pause.owner, [])
        if pause in pauses:
            del pauses[: pauses.index(pause)]

    def refuse(self, pause: Pause) -> None:
        """It could not be: its owner has what it had before, or has asked for since."""
        pauses = self._pauses.get(pause.owner, [])
        if pause in pauses:
            pauses.remove(pause)
            if not pauses:
                del self._pauses[pause.owner]

    def end(self, owner: str | None = None) -> list[Pause]:
        """End an owner's pause, if there is one, or all; which those were."""
        return self._without([pause for pause in self if owner in (None, pause.owner)])

    def expire(self, now_s: float) -> list[Pause]:
        """End those whose lease has ended; which those were."""
        return self._without([pause for pause in self if pause.until_s <= now_s])

    def _without(self, ended: list[Pause]) -> list[Pause]:
        for pause in ended:
            del self._pauses[pause.owner]
        return ended


def impatient(held_s: float) -> list[str]:
    """Who gives up on an answer that takes so long, by `CLIENT_PATIENCE_S`, in words."""
    return [f"{client} ({limit_s:g} s)" for client, limit_s in CLIENT_PATIENCE_S.items() if held_s >= limit_s]
