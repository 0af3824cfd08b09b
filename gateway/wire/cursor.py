"""Where a page ends, and of which moment all its pages are."""

import re
from dataclasses import dataclass

from gateway.core.fate import Moment
from gateway.errors import BadRequest

_CURSOR = re.compile(r"([0-9]{1,12})\.([0-9]{1,12})\.([0-9a-f]{8})((?:\.[0-9]{1,12}-[0-9]{1,12}-[0-9]{1,12})+)")


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
        raise BadRequest("cursor must be the `next` of an earlier page", param="cursor")
    if found[3] != query:
        raise BadRequest("cursor comes from another query: repeat the parameters of the first page", param="cursor")
    sessions = (tuple(map(int, part.split("-"))) for part in found[4][1:].split("."))
    moments = tuple((number, Moment(turns, deliveries)) for number, turns, deliveries in sessions)
    return Cursor(int(found[1]), int(found[2]), query, moments)
