"""What a bridge may hang on: the shape of a turn, and stand-ins for its answer that must make no difference.

A *mark* stands in for what an answer says. Two of them differ in length and in their first and last letters, so that
whatever a template makes of an answer's text behind its end shows.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import count
from typing import NamedTuple, cast

from gateway.render.protocol import MessageDict, MessageDicts
from gateway.render.said import arguments_of, calls_of, function_of

Frame = Callable[[str], MessageDicts]
"""A small history that ends in an answer which says a mark."""

MARKS = ("Qz", "vxK9")
_THOUGHT, _VALUE = "thought", "value"
_ASKED: MessageDict = {"role": "user", "content": "Hi"}
_EXACT_MESSAGES = 16
"""Up to here each length of a history is a shape of its own; beyond, each power of two is."""


class Shape(NamedTuple):
    """What the writing of new messages behind an answer may hang on, as far as it was not proven otherwise."""

    new: tuple[object, ...]
    """The roles of the new messages."""
    tools: bytes
    """Digest of the names of the tools."""
    says: tuple[object, ...]
    """What the answer has: text, reasoning, calls of which names."""
    before: tuple[object, ...]
    """The first and the last role in front of the answer, and which kinds of messages there are: before the last of a
    user, where templates change what they write of thoughts, and since."""
    close: int
    """The id that ended the answer."""
    position: int


def shape_of(history: MessageDicts, new: MessageDicts, tools: MessageDicts | None, close: int) -> Shape:
    """The shape of a turn whose answer stands at the end of `history`."""
    *before, answer = history
    names = json.dumps([function_of(tool).get("name") for tool in tools or ()], default=str)
    roles = [before[0]["role"], before[-1]["role"]] if before else []
    asked = max((at for at, message in enumerate(before) if message["role"] == "user"), default=0)
    length = len(history)
    return Shape(
        new=tuple(message["role"] for message in new),
        tools=blake2b(names.encode("utf-8", "surrogatepass"), digest_size=16).digest(),
        says=_what(answer, *(call.get("name") for call in calls_of(answer))),
        before=(*roles, _kinds(before[:asked]), _kinds(before[asked:])),
        close=close,
        position=length if length <= _EXACT_MESSAGES else 1 << (length - 1).bit_length(),
    )


def without_reasoning(history: MessageDicts) -> MessageDicts:
    """The same history, in which nobody thought."""
    return [{key: value for key, value in message.items() if key != "reasoning_content"} for message in history]


def mirror(answer: MessageDict, mark: str, *, in_full: bool = False) -> MessageDict:
    """An answer with the same parts and calls, which says another mark wherever `answer` says something.

    `in_full`, each is at least as long as what it stands for, since templates may cut that.

    Raises:
        ValueError: the arguments of a call are no JSON object.
    """
    numbers, said = count(), dict(answer)

    def marked(what: str, value: object) -> str:
        text = value if isinstance(value, str) else json.dumps(value)
        return mark[0] + what + "x" * (len(text) if in_full else 0) + mark[1:]

    def mirrored(call: MessageDict) -> MessageDict:
        function, arguments = function_of(call), arguments_of(function_of(call))
        if not isinstance(arguments, dict):
            raise ValueError("the arguments of a call are no JSON object")  # noqa: TRY004  # as json.loads raises, too
        values = {key: marked(f"{_VALUE}{next(numbers)}", value) for key, value in (arguments or {"x": ""}).items()}
        as_text = isinstance(function.get("arguments"), str)
        return {**call, "function": {**function, "arguments": json.dumps(values) if as_text else values}}

    if answer.get("reasoning_content"):
        said["reasoning_content"] = marked(_THOUGHT, answer["reasoning_content"])
    calls = cast("Sequence[MessageDict]", answer.get("tool_calls") or ())
    if answer.get("content") or not calls:
        said["content"] = marked("", answer.get("content") or "")
    if calls:
        said["tool_calls"] = [mirrored(call) for call in calls]
    return said


def marks_in(mirrored: MessageDict) -> list[str]:
    """The marks that a mirror says, each of which must be found once where a template writes it."""
    values = [value for call in calls_of(mirrored) for value in cast("MessageDict", arguments_of(call)).values()]
    said = [mirrored.get("reasoning_content"), mirrored.get("content"), *values]
    return [text for text in said if isinstance(text, str) and text]


def frames(history: MessageDicts, new: MessageDicts) -> list[Frame]:
    """Small histories in which `new` may be written as behind the answer at the end of `history`, likeliest first."""
    *before, answer = history
    contexts = [[_ASKED], [_ASKED, *looked]] if (looked := _exchange(before)) else [[_ASKED]]
    results = [message for message in new if message["role"] == "tool"]

    def mirrored(mark: str) -> MessageDict:
        return mirror(answer, mark)

    def plain(mark: str) -> MessageDict:
        return {"role": "assistant", "content": mark}

    def calling(mark: str) -> MessageDict:
        arguments = json.dumps({"x": mark[0] + _VALUE + mark[1:]})
        calls = [{"type": "function", "function": {"name": "look", "arguments": arguments}}]
        ids = [result.get("tool_call_id", "a1b2c3d4e") for result in results] or ["a1b2c3d4e"]
        return {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": one, **call} for one in ids for call in calls],
        }

    def frame(context: MessageDicts, says: Callable[[str], MessageDict]) -> Frame:
        return lambda mark: [*context, says(mark)]

    return [frame(context, says) for context in contexts for says in (mirrored, plain, calling)]


def renewed(new: MessageDicts) -> MessageDicts:
    """The same messages with other texts."""
    return [{**message, "content": "aye" if message["content"] == "no" else "no"} for message in new]


def _exchange(history: MessageDicts) -> MessageDicts:
    """The first calls in a history and their results, saying next to nothing; nothing where there are none."""
    for at, message in enumerate(history):
        if message.get("tool_calls"):
            results: MessageDicts = []
            for result in history[at + 1 :]:
                if result["role"] != "tool":
                    break
                results.append({**result, "content": "no"})
            return [mirror(message, "no"), *results]
    return []


def _what(message: MessageDict, *more: object) -> tuple[object, ...]:
    """What kind of message it is: who says it, and which parts it has."""
    return (message["role"], *(bool(message.get(key)) for key in ("content", "reasoning_content", "tool_calls")), *more)


def _kinds(messages: Iterable[MessageDict]) -> frozenset[object]:
    return frozenset(map(_what, messages))
