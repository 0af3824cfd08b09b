"""How a client rewrites the answers that it sends back: measured on one exchange, applied to another.

Nothing here knows a client. An answer as it was `sent` and as it was `replayed` are compared piece by piece, and the
same is done to an answer of ours: a value that came back is taken from ours, under whatever name it came back; a text
that came back altered is altered likewise; what the client added is added, and what it dropped is dropped.
"""

import json
from typing import Any

Json = dict[str, Any]

_SPELLINGS: tuple[Json, ...] = (
    {"ensure_ascii": False},
    {"ensure_ascii": True},
    {"ensure_ascii": False, "separators": (",", ":")},
    {"ensure_ascii": True, "separators": (",", ":")},
)


class Untraceable(ValueError):
    """A replayed text or call cannot be had from what was sent: the client wrote another."""


def replayed_like(sent: Json, replayed: Json, ours: Json) -> Json:
    """Our answer as the client would send it back.

    Raises:
        Untraceable: naming the field that the client wrote anew.
    """
    message = {key: _field(sent, key, value, ours) for key, value in replayed.items()}
    if "content" in replayed:
        message["content"] = _content(sent.get("content"), replayed["content"], ours.get("content"))
    if "tool_calls" in replayed:
        message["tool_calls"] = _calls(sent.get("tool_calls"), replayed["tool_calls"], ours.get("tool_calls"))
    return message


def _field(sent: Json, key: str, value: Any, ours: Json) -> Any:
    """A text that the client kept, renamed or moved is ours; anything else is as the client wrote it."""
    if isinstance(value, dict):
        return {inner: _field(sent, inner, item, ours) for inner, item in value.items()}
    for name in (key, *sent):
        then, now = sent.get(name), ours.get(name)
        if isinstance(then, str) and isinstance(now, str):
            for before, after in zip(_texts(then), _texts(now), strict=True):
                if before == value:
                    return after
    return value


def _texts(text: str) -> tuple[str, ...]:
    return (text, text.strip(), text.lstrip(), text.rstrip())


def _content(sent: str | None, replayed: Any, ours: str | None) -> Any:
    if isinstance(replayed, list):
        text = "".join(part["text"] for part in replayed if "text" in part)
        return [{"type": "text", "text": _content(sent, text, ours)}, *(p for p in replayed if "text" not in p)]
    if not replayed:
        return ours if sent == replayed else replayed
    said, own = sent or "", ours or ""
    for before, after in zip(_texts(said), _texts(own), strict=True):
        if before == replayed:
            return after
    core = said.strip()
    before, found, after = str(replayed).partition(core) if core else ("", "", str(replayed))
    if found != core or (before + after).strip():
        raise Untraceable("content")
    return before + own.strip() + after


def _calls(sent: list[Json] | None, replayed: list[Json] | None, ours: list[Json] | None) -> list[Json] | None:
    if not replayed:
        return replayed
    if not (len(sent or ()) == len(replayed) == len(ours or ())):
        raise Untraceable("tool_calls")
    return [_call(*calls) for calls in zip(sent or (), replayed, ours or (), strict=True)]


def _call(sent: Json, replayed: Json, ours: Json) -> Json:
    then, now, function = sent["function"], ours["function"], replayed["function"]
    if function["name"] != then["name"]:
        raise Untraceable("tool_calls")
    written = {key: value for key, value in function.items() if "arguments" in key and value is not None}
    spelt = {key: _arguments(then["arguments"], value, now["arguments"]) for key, value in written.items()}
    kept = {"id": ours["id"]} if replayed.get("id") == sent["id"] else {}
    return {**replayed, **kept, "function": {**function, **spelt, "name": now["name"]}}


def _arguments(sent: str, replayed: Any, ours: str) -> Any:
    for before, after in zip(_spellings(sent), _spellings(ours), strict=False):
        if before == replayed:
            return after
    raise Untraceable("arguments")


def _spellings(arguments: str) -> list[Any]:
    """The text itself, what it says, and that in other spellings."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return [arguments]
    return [arguments, value, *(json.dumps(value, **spelling) for spelling in _SPELLINGS)]
