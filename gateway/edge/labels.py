"""Labels: what a harness says about a turn in its request headers."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from multidict import CIMultiDictProxy

from gateway.core.types import Labels
from gateway.errors import BadRequest

TAG, TRAIN = "x-gateway-tag", "x-gateway-train"
_MAX_TAGS = 32
_MAX_VALUE_CHARS = 4096
"""Codex writes a JSON object with its workspaces into one header."""
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def labels_of(headers: CIMultiDictProxy[str], tag_headers: Sequence[str]) -> Labels:
    """The labels in `headers`: each of `tag_headers` (lower case) under its name, and what x-gateway-… say.

    A tag said in x-gateway-tag comes before a header of that name; of equal names the last wins. Empty headers
    say nothing. `tag_headers` were not written for us: what does not fit is cut, and no call fails for them.

    Raises:
        BadRequest: an x-gateway-… header is ill, and named.
    """
    said = dict(_tags(headers.getall(TAG, ())))
    if len(said) > _MAX_TAGS:
        raise _ill(TAG, f"must not hold more than {_MAX_TAGS} tags")
    heard = {name: _fitted(", ".join(headers.getall(name, ()))) for name in tag_headers if name not in said}
    tags = dict(islice(((name, value) for name, value in heard.items() if value), _MAX_TAGS - len(said))) | said
    word = ", ".join(headers.getall(TRAIN, ("true",)))
    train = _WORDS.get(word.strip().lower())
    if train is None:
        raise _ill(TRAIN, "must be true or false (or 1, yes, 0, no), once")
    return Labels(tags, train)


def _tags(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for item in ",".join(lines).split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name or equals):
            continue  # RFC 9110, section 5.6.1: a list may have empty items
        if not (equals and _NAME.fullmatch(name)):
            raise _ill(TAG, "must be name=value, with a name of at most 64 letters, digits and _ . : / -")
        if len(value) > _MAX_VALUE_CHARS or not value.isprintable():
            raise _ill(TAG, f"must be printable text of at most {_MAX_VALUE_CHARS} characters")
        yield name, value


def _fitted(value: str) -> str:
    return "".join(char if char.isprintable() else "\ufffd" for char in value[:_MAX_VALUE_CHARS])


def _ill(header: str, what: str) -> BadRequest:
    return BadRequest(f"the header {header} {what}", param=header)
