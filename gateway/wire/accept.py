"""Which form of an answer a client takes."""

import re
from collections.abc import Iterator, Sequence

from gateway.errors import BadRequest

_RANGE = re.compile(r"\s*([\w!#$%&'+.^`|~*-]+)/([\w!#$%&'+.^`|~*-]+)\s*(?:;(.*))?", re.ASCII)
_QUALITY = re.compile(r"(?:.*;)?\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*(?:;.*)?", re.ASCII | re.IGNORECASE)


def negotiated(accept: Sequence[str], offered: Sequence[str]) -> str:
    """The media type that a client likes best, by its `Accept` headers; of equals the first that is offered.

    A client that says nothing takes anything. What cannot be read says nothing.

    Raises:
        BadRequest: it takes none of them.
    """
    ranges = [found for header in accept for found in _ranges(header)] or [("*", "*", 1.0)]
    liked = {media: _quality(media, ranges) for media in offered}
    best = max(offered, key=liked.__getitem__)
    if not liked[best]:
        raise BadRequest(f"this is written as {', '.join(offered)}: ask for one of them in Accept", status=406)
    return best


def _ranges(header: str) -> Iterator[tuple[str, str, float]]:
    # Source: RFC 9110, section 12.5.1.
    for part in header.split(","):
        found = _RANGE.fullmatch(part)
        if found is not None:
            quality = _QUALITY.fullmatch(found[3] or "")
            yield found[1].lower(), found[2].lower(), min(float(quality[1]), 1.0) if quality else 1.0


def _quality(media: str, ranges: Sequence[tuple[str, str, float]]) -> float:
    """How much a type is liked: the range that names it most closely says so."""
    kind, _, name = media.partition("/")
    fits = [
        ((of_kind != "*") + (of_name != "*"), quality)
        for of_kind, of_name, quality in ranges
        if of_kind in (kind, "*") and of_name in (name, "*")
    ]
    return max(fits, default=(0, 0.0))[1]
