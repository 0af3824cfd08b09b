"""Text in pieces: what can be told of each while it grows, and the message that they make."""

from dataclasses import dataclass
from itertools import groupby

from gateway.render.call_bodies import Call


@dataclass(frozen=True, slots=True)
class Delta:
    """What more of an answer is certain; of one kind only."""

    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Parsed:
    """A whole answer."""

    content: str
    reasoning_content: str | None
    """``None`` when there was no thought."""
    tool_calls: tuple[Call, ...]
    flags: tuple[str, ...] = ()
    """What was odd: ``malformed_tool_call``."""


@dataclass(frozen=True, slots=True)
class FoundCall:
    """A tool call as others parsed it, or what they could not parse."""

    name: str | None
    arguments: object
    raw: str = ""
    """How it was written, for whoever cannot be given it; empty where that stands in the content."""
    status: str | None = None
    id: str | None = None
    """The model's own; ``None`` where it wrote none."""


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A whole answer as others parsed it, whose calls may be broken."""

    content: str
    reasoning_content: str | None = None
    tool_calls: tuple[FoundCall, ...] = ()
    flags: tuple[str, ...] = ()
    """``unparsed`` where they failed to."""


class Piece:
    """A piece of text that loses `left` in front and `right` behind; ``None`` stands for all white space.

    `right` is one character at most.
    """

    def __init__(self, left: str | None, right: str | None) -> None:
        self._left, self._right = left, right
        self._front: str | None = ""
        """What of the left edge has come; ``None`` when that is behind us."""
        self._back: list[str] = []
        """What came last and may be the right edge."""

    def add(self, text: str) -> str:
        """Take more text; what is certain now."""
        if self._front is not None:
            text = self._past_front(self._front + text)
        kept = text.rstrip() if self._right is None else text.removesuffix(self._right)
        if not text or not (kept or self._right):
            self._back.append(text)
            return ""
        told, self._back = "".join((*self._back, kept)), [text[len(kept) :]]
        return told

    def end(self, *, cut: bool) -> str:
        """No more will come: the rest. Whether it is `cut` is known only now; white space always is."""
        front, self._front = self._front, None
        rest = front or "".join(self._back)
        if self._right is None:
            return ""
        return rest.removesuffix(self._right) if cut else rest

    def _past_front(self, text: str) -> str:
        if self._left is None:
            text = text.lstrip()
            self._front = None if text else ""
            return text
        if self._left != text and self._left.startswith(text):
            self._front = text
            return ""
        self._front = None
        return text.removeprefix(self._left)


class Message:
    """An answer as it grows: pieces of content are joined by a newline, empty ones left out."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] | None = None
        self._calls: list[Call] = []
        self._flags: dict[str, None] = {}
        self._news: list[Delta] = []
        self._joint = ""
        """What comes before the next content."""

    def next_piece(self) -> None:
        """What content comes now is a piece of its own."""
        self._joint = "\n" if self._content else ""

    def say(self, text: str) -> None:
        """Add to the content."""
        if text:
            text, self._joint = self._joint + text, ""
            self._content.append(text)
            self._news.append(Delta(content=text))

    def think(self, text: str) -> None:
        """Add to the reasoning; no text at all still says that there was a thought."""
        self._reasoning = self._reasoning or []
        if text:
            self._reasoning.append(text)
            self._news.append(Delta(reasoning_content=text))

    def call(self, call: Call) -> None:
        """Add a tool call."""
        self._calls.append(call)
        self._news.append(Delta(tool_calls=(call,)))

    def flag(self, what: str) -> None:
        """Note that something was odd."""
        self._flags[what] = None

    def take(self) -> list[Delta]:
        """What was added since this was last asked for; what is of one kind in one delta."""
        news, self._news = self._news, []
        return [_joined(kind, list(deltas)) for kind, deltas in groupby(news, key=_kind)]

    def whole(self) -> Parsed:
        """All of it."""
        reasoning = None if self._reasoning is None else "".join(self._reasoning)
        return Parsed("".join(self._content), reasoning, tuple(self._calls), tuple(self._flags))


def _kind(delta: Delta) -> str:
    return "calls" if delta.tool_calls else "reasoning" if delta.content is None else "content"


def _joined(kind: str, deltas: list[Delta]) -> Delta:
    match kind:
        case "calls":
            return Delta(tool_calls=tuple(call for delta in deltas for call in delta.tool_calls))
        case "reasoning":
            return Delta(reasoning_content="".join(delta.reasoning_content or "" for delta in deltas))
        case _:
            return Delta(content="".join(delta.content or "" for delta in deltas))
