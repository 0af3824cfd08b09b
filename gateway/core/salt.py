"""What keeps the prefix caches of policy versions apart: a salt that engines hash with the prompt."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from gateway.core.types import UNKNOWN_VERSION

SaltRule = Literal["start", "current", "none"]
"""Whose version is in the salt: that at the start of a session or its group, the current one, or none."""
MAX_CHARS = 1024
"""What vLLM takes."""


def salt(rule: SaltRule, *, start: str, current: str, own: str | None) -> str | None:
    """The salt of one call, `own` being what its caller asks for; ``None`` for none.

    Salts of different versions or callers differ. While no version is known the caller's is all.
    """
    version = {"start": start, "current": current, "none": UNKNOWN_VERSION}[rule]
    if version == UNKNOWN_VERSION:
        return own
    whole = f"policy {len(version)}:{version}" + (f" {own}" if own else "")
    return whole if len(whole) <= MAX_CHARS else blake2b(whole.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(slots=True)
class Start:
    """At which version a session, or all sessions of a group, began: what samples its first call. Mutable."""

    _version: str | None = None
    sessions: int = 0
    """How many sessions of its group exist."""

    def at(self, current: str) -> str:
        """The version at the start, which is now if this is the first call."""
        if self._version is None:
            self._version = current
        return self._version


class Starts:
    """The starts of groups. A group is remembered as long as a session of it exists. Mutable."""

    def __init__(self) -> None:
        self._groups: dict[str, Start] = {}

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._groups)

    def enter(self, group_id: str | None) -> Start:
        """A session is there: its start, which is its group's, if any."""
        if group_id is None:
            return Start()
        group = self._groups.setdefault(group_id, Start())
        group.sessions += 1
        return group

    def leave(self, group_id: str | None) -> None:
        """A session that had entered is no more."""
        if group_id is not None:
            group = self._groups[group_id]
            group.sessions -= 1
            if not group.sessions:
                del self._groups[group_id]
