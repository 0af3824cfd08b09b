"""JSON as every reader of it understands it: what a tool call's arguments must be before a client is given them."""

import json
from typing import NoReturn

MAX_DEPTH = 200
"""How deep arrays and objects may stand in each other. Fixed, so that what is sound does not hang on whose stack it is
read on: the interpreter gives up a few hundred levels later."""


def read(text: str) -> object:
    """The value of a JSON text.

    Raises:
        ValueError: it is no JSON, or not all readers agree on it: NaN, infinities, lone surrogates, a key given
            twice, more than `MAX_DEPTH` levels.
    """
    try:
        value: object = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _written(value)
    return value


def strict_object(arguments: object) -> str | None:
    """JSON text of an arguments object, which may be given as text; ``None`` if it is none, or `read` refuses it."""
    try:
        value = read(arguments) if isinstance(arguments, str) else arguments
        return _written(value) if isinstance(value, dict) else None
    except (ValueError, TypeError):
        return None


def _written(value: object) -> str:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        level = [inner for outer in level for inner in _inside(outer)]
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text.encode()
    return text


def _inside(value: object) -> list[object]:
    """The arrays and objects in it."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [inner for inner in values if isinstance(inner, dict | list)]


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
