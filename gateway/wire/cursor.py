"""Where a page ends, and of which moment all its pages are."""

import re
from dataclasses import dataclass

from gateway.core.fate import Moment
from gateway.errors import BadRequest

_CURSOR = re.compile(r"([0-9]{1,12})\.([0-9]{1,12})\.([0-9a-f]{8})((?:\.[0-9]{1,12}-[0-9]{1,12}-[0-9]{1,12})+)")

_NONE_OF_OURS = "cursor must be the `next` of an earlier page"
_ANOTHER_QUERY = "cursor comes from another query: repeat the path and the parameters of the first page"
_PULL_CURSOR = re.compile(r"([0-9]{1,12})\.([0-9a-f]{8})(?:~(.+))?")


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a listing that does not change while its sessions go on."""

    start: int
    """How many items the pages before had."""
    versions: int
    """How many policy versions were known at the first page."""
    query: str
    """A digest of what is listed."""
    moments: tuple[tuple[int, Moment], ...]
    """How much the sessions knew, each by its number."""

    def __str__(self) -> str:
        sessions = (f"{number}-{moment.turns}-{moment.deliveries}" for number, moment in self.moments)
        return ".".join([str(self.start), str(self.versions), self.query, *sessions])


def decode_cursor(text: str, query: str) -> Cursor:
    """The cursor that a client brings back with a `query` of this digest.

    Raises:
        BadRequest: it is none of ours, or comes from another query.
    """
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise BadRequest(_NONE_OF_OURS, param="cursor")
    if found[3] != query:
        raise BadRequest(_ANOTHER_QUERY, param="cursor")
    sessions = (tuple(map(int, part.split("-"))) for part in found[4][1:].split("."))
    moments = tuple((number, Moment(turns, deliveries)) for number, turns, deliveries in sessions)
    return Cursor(int(found[1]), int(found[2]), query, moments)


@dataclass(frozen=True, slots=True)
class PullCursor:
    """A place among rollouts, which stays one while others come, go and grow."""

    place: int
    """That of the last rollout that was read, wholly or in part; 0 before the first."""
    query: str
    """A digest of what is listed."""
    within: Cursor | None = None
    """Where in that rollout the next page begins; ``None`` behind it."""

    def __str__(self) -> str:
        return f"{self.place}.{self.query}" + (f"~{self.within}" if self.within else "")


def decode_pull_cursor(text: str, query: str) -> PullCursor:
    """The cursor that a client brings back with a `query` of this digest.

    Raises:
        BadRequest: it is none of ours, or comes from another query.
    """
    found = _PULL_CURSOR.fullmatch(text)
    if found is None:
        raise BadRequest(_NONE_OF_OURS, param="cursor")
    if found[2] != query:
        raise BadRequest(_ANOTHER_QUERY, param="cursor")
    return PullCursor(int(found[1]), query, decode_cursor(found[3], query) if found[3] else None)
