"""Which form of an answer a client takes."""

import re
from collections.abc import Iterator, Sequence

from gateway.errors import BadRequest

_QUALITY = re.compile(r"q=([01](?:\.[0-9]{0,3})?)", re.ASCII)


def negotiated(accept: Sequence[str], offered: Sequence[str]) -> str:
    """The media type that a client likes best, by its `Accept` headers; a client that says nothing takes anything.

    Of equals the one that it names first. Where it takes any, it gets the first that is offered.

    Raises:
        BadRequest: it takes none of them.
    """
    liked = [wish for header in accept for wish in _wishes(header)] or [(1.0, "*/*")]
    for quality, named in sorted(liked, key=lambda wish: (-wish[0], "*" in wish[1])):
        fits = [media for media in offered if named in (media, media.partition("/")[0] + "/*", "*/*")]
        if quality and fits:
            return fits[0]
    raise BadRequest(f"this is written as {', '.join(offered)}: ask for one of them in Accept", status=406)


def _wishes(header: str) -> Iterator[tuple[float, str]]:
    # Source: RFC 9110, section 12.5.1.
    for part in filter(str.strip, header.lower().split(",")):
        named, *parameters = (word.strip() for word in part.split(";"))
        qualities = [float(found[1]) for word in parameters if (found := _QUALITY.fullmatch(word))]
        yield (qualities or [1.0])[0], named
