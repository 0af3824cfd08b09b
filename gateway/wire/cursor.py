"""Where a page ends, and of which moment the rest of what it began is."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gateway.core.fate import Moment
from gateway.errors import BadRequest

_NONE_OF_OURS = "cursor must be the `next` of an earlier page"
_ANOTHER_QUERY = "cursor comes from another query: repeat the path and the parameters of the first page"
_DIGEST_BYTES = 4
_BITS = 42
"""No number that is counted here has more."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a listing that does not change while its sessions go on."""

    start: int
    """How many items the pages before had."""
    versions: int
    """How many policy versions were known when it was begun."""
    moments: tuple[tuple[int, Moment], ...]
    """How much the sessions knew, each by its number, in the order of these."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place among rollouts, which stays one while others come, go and grow."""

    rollout: int
    """The place of the last one that was read, wholly or in part; 0 before the first."""
    query: str
    """A digest of what is listed, as eight hexadecimal digits."""
    within: Place | None = None
    """Where in that rollout the next page begins; ``None`` behind it."""

    def __str__(self) -> str:
        packed = bytes.fromhex(self.query) + b"".join(map(_packed, self._numbers()))
        return urlsafe_b64encode(packed).rstrip(b"=").decode()

    def _numbers(self) -> Iterator[int]:
        yield self.rollout
        if self.within is None:
            return
        yield from (self.within.start, self.within.versions)
        before = 0
        for number, moment in self.within.moments:
            yield from (number - before - 1, *moment)  # sessions of one rollout are mostly made one after the other
            before = number


def decode_cursor(text: str, query: str) -> Cursor:
    """The cursor that a client brings back with a `query` of this digest.

    Raises:
        BadRequest: it is none of ours, or comes from another query.
    """
    try:
        cursor = _read(urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
    except ValueError:
        cursor = None
    if cursor is None or str(cursor) != text:
        raise BadRequest(_NONE_OF_OURS, param="cursor")
    if cursor.query != query:
        raise BadRequest(_ANOTHER_QUERY, param="cursor")
    return cursor


def _read(packed: bytes) -> Cursor:
    rollout, *within = _unpacked(packed[_DIGEST_BYTES:])
    query = packed[:_DIGEST_BYTES].hex()
    if not within:
        return Cursor(rollout, query)
    start, versions, *rest = within
    moments, number = list[tuple[int, Moment]](), 0
    for further, turns, deliveries in zip(*[iter(rest)] * 3, strict=True):
        number += further + 1
        moments.append((number, Moment(turns, deliveries)))
    return Cursor(rollout, query, Place(start, versions, tuple(moments)))


def _packed(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that there are more."""
    packed = bytearray()
    while number > 0x7F:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*packed, number])


def _unpacked(packed: Iterable[int]) -> Iterator[int]:
    number = bits = 0
    for byte in packed:
        number |= (byte & 0x7F) << bits
        bits = bits + 7 if byte & 0x80 else 0
        if bits > _BITS:
            raise ValueError("a number is too large")
        if not bits:
            yield number
            number = 0
    if bits:
        raise ValueError("it ends within a number")
