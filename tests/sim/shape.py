"""The shape of an answer: its keys and types, and what of it never varies."""

from typing import Any

import orjson

_KEPT = frozenset({"type", "code", "param", "object", "output_mode", "detail", "finish_reason"})
"""Keys whose values are part of the shape: a client acts on them."""

_END = "[DONE]"


def shape(value: Any, key: str = "") -> Any:
    """Keys and types, all the way down; of a list the different shapes of its elements, whatever their number."""
    if isinstance(value, dict):
        if value and all(name.isdigit() for name in value):
            return {"<id>": _variants(value.values())}
        return {name: shape(value[name], name) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return _variants(value)
    if value is None or isinstance(value, bool):
        return value if value is None else "boolean"
    if key in _KEPT:
        return f"={value}"
    return (value if value == _END else "text") if isinstance(value, str) else "number"


def shape_of_answer(body: bytes, content_type: str) -> Any:
    """The shape of a response: of its events, of its JSON, or that it is empty or no JSON."""
    if content_type.startswith("text/event-stream"):
        *events, rest = body.decode().split("\n\n")
        assert rest == ""
        payloads = [event.removeprefix("data: ") for event in events]
        return {"events": _variants(data if data == _END else orjson.loads(data) for data in payloads)}
    if not body:
        return "empty"
    return shape(orjson.loads(body)) if content_type.startswith("application/json") else "text"


def _variants(values: Any) -> list[Any]:
    found = {orjson.dumps(one, option=orjson.OPT_SORT_KEYS): one for one in map(shape, values)}
    return [found[name] for name in sorted(found)]
