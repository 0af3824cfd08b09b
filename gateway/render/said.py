"""What an answer says, part by part, and whether a text says just that."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from gateway.render.protocol import MessageDict

Spellings = tuple[str, ...]
"""The ways in which a part may be written, without the white space around it, which templates trim."""


def parts_of(answer: MessageDict) -> list[Spellings]:
    """What an answer says, in order: its thought, its content, and of each call the name, the keys and the values."""
    texts = [answer.get("reasoning_content"), answer.get("content")]
    found = [_spellings(text) for text in texts if isinstance(text, str)]
    for call in calls_of(answer):
        found.append(_spellings(str(call.get("name"))))
        found += _leaves(arguments_of(call))
    return [spellings for spellings in found if spellings[0]]


def leads_of(answer: MessageDict) -> list[Spellings]:
    """The first of these parts: up to the name of the first call, behind which how JSON is spelt is the model's."""
    parts = parts_of({**answer, "tool_calls": None})
    return parts + [_spellings(str(call.get("name"))) for call in calls_of(answer)[:1]]


def calls_of(answer: MessageDict) -> list[Mapping[str, object]]:
    """The functions that an answer calls."""
    return [function_of(call) for call in cast("Sequence[MessageDict]", answer.get("tool_calls") or ())]


def function_of(holder: Mapping[str, object]) -> Mapping[str, object]:
    """The function in a call or a tool."""
    function = holder.get("function", holder)
    return function if isinstance(function, Mapping) else {}


def arguments_of(call: Mapping[str, object]) -> object:
    """The arguments of a call, which may be given as JSON text.

    Raises:
        ValueError: that text is no JSON.
    """
    given = call.get("arguments")
    return json.loads(given) if isinstance(given, str) else given


def around(text: str, parts: Iterable[Spellings]) -> list[str] | None:
    """What a text says around `parts`, which it must say in their order; ``None`` if it does not."""
    pieces, at = [], 0
    for spellings in parts:
        found = [(start, len(one)) for one in spellings if (start := text.find(one, at)) >= 0]
        if not found:
            return None
        start, length = min(found)
        pieces.append(text[at:start])
        at = start + length
    return [*pieces, text[at:]]


def is_same(one: str, other: str) -> bool:
    """Whether two texts are one but for white space: how thoughts and calls are indented is nobody's rule."""
    return _squeezed(one) == _squeezed(other)


def says_all(text: str, pieces: Iterable[str]) -> bool:
    """Whether a text has all `pieces`, in their order, but for white space."""
    rest = _squeezed(text)
    for piece in map(_squeezed, pieces):
        _, found, rest = rest.partition(piece) if piece else ("", "found", rest)
        if not found:
            return False
    return True


def _leaves(value: object) -> Iterator[Spellings]:
    if isinstance(value, Mapping):
        for key, held in value.items():
            yield _spellings(str(key))
            yield from _leaves(held)
    elif isinstance(value, list | tuple):
        for held in value:
            yield from _leaves(held)
    else:
        yield _spellings(value) if isinstance(value, str) else (json.dumps(value), str(value))


def _spellings(text: str) -> Spellings:
    said = text.strip()
    return (said, json.dumps(said, ensure_ascii=False)[1:-1], json.dumps(said)[1:-1])


def _squeezed(text: str) -> str:
    return "".join(text.split())
