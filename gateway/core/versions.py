"""Policy versions in their order, by which staleness counts, and which of them sampled what."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from gateway.core.types import UNKNOWN_VERSION, VersionSpan

Exactness = Literal["fenced", "assumed"]
"""How well it is known where a version began, when no engine says so."""


@dataclass(frozen=True, slots=True)
class Announced:
    """The policy version that a trainer said is in the engines."""

    version: str
    ordinal: int
    """The first that was announced has 1."""
    fenced: bool
    """Whether it was said while no call could be begun, so that one begun later is sampled by it alone."""


class Versions:
    """The policy versions of this gateway, the oldest first.

    Those that were announced are in the order of their announcement. One that nobody announced is the newest, unless a
    completion shows it before one that is known: a long turn of the policy before may be the first to show that one,
    and be recorded when turns of the next have been. Otherwise two that are known keep their order, and what is read
    of one moment is always of the order of that moment.

    `unknown` is none of them: nobody can say how old it is. Mutable: it grows, by a name for each policy.
    """

    def __init__(self) -> None:
        self._moves: list[tuple[str, int]] = []
        # Each name's place when it came, or came to another: what the order was at a moment is told from these.
        self._aged: list[str] = []
        # By age, from the oldest on.
        self._announced: dict[str, int] = {}
        self._come: set[str] = set()
        # Engines that were admitted since something was last announced with a fence.
        self.current: Announced | None = None
        """The one announced last; ``None`` before any was."""

    def __len__(self) -> int:
        """A moment, as `fresh` takes it."""
        return len(self._moves)

    @property
    def now(self) -> str:
        """What samples now, as far as is known: what was announced last, or else the newest that an engine named."""
        if self.current:
            return self.current.version
        return self._aged[-1] if self._aged else UNKNOWN_VERSION

    @property
    def ordinal(self) -> int:
        """Of what was announced last; 0 before any was."""
        return self.current.ordinal if self.current else 0

    def announce(self, version: str, *, fenced: bool) -> bool:
        """Say what is in the engines from now on; whether that is news.

        Said once more it is no news, unless only now it is said with a fence. One that was announced before others
        stays older than those: weights that are taken back to it are as old as they were.

        With a fence it is said of every engine that was admitted so far, be it news or not.
        """
        if fenced:
            self._come.clear()
        current = self.current
        if current and current.version == version and (current.fenced or not fenced):
            return False
        if version not in self._announced:
            self._announced[version] = len(self._announced) + 1
            self._move(version, len(self._aged) - (version in self._aged))
        self.current = Announced(version, self._announced[version], fenced)
        return True

    def admit(self, engine: str) -> None:
        """An engine answers, at first or again: what was announced before may not be in it."""
        if self.current:
            self._come.add(engine)

    def forget(self, engine: str) -> None:
        """An engine is no more."""
        self._come.discard(engine)

    def bounds(self, engine: str) -> Exactness:
        """How well it is known that it is what was announced last that an engine samples with."""
        return "fenced" if self.current and self.current.fenced and engine not in self._come else "assumed"

    def doubt(self) -> None:
        """Other weights may be in the engines by now: without a fence it is still taken for what was announced last."""
        if self.current:
            self.current = replace(self.current, fenced=False)

    def note(self, spans: Iterable[VersionSpan]) -> None:
        """These versions sampled one completion, in this order."""
        following: str | None = None
        for name in reversed(dict.fromkeys(span.version for span in spans if span.version != UNKNOWN_VERSION)):
            if name not in self._aged:
                self._move(name, len(self._aged) if following is None else self._aged.index(following))
            following = name

    def _move(self, name: str, place: int) -> None:
        if self._aged[place : place + 1] != [name]:
            _move(self._aged, name, place)
            self._moves.append((name, place))

    def staleness(self, version: str) -> int:
        """How many versions are newer than one that is known; 0 for any other."""
        return len(self._aged) - 1 - self._aged.index(version) if version in self._aged else 0

    def fresh(self, max_staleness: int | None, moment: int | None = None) -> frozenset[str] | None:
        """Versions no more than `max_staleness` older than the newest, at a moment (`len` of then), or now.

        ``None`` where age does not matter.
        """
        if max_staleness is None:
            return None
        known = self._aged
        if moment is not None and moment < len(self._moves):
            known = []
            for name, place in self._moves[:moment]:
                _move(known, name, place)
        return frozenset(known[max(len(known) - 1 - max_staleness, 0) :])

    def marks(self) -> "Marks":
        """What is to be noted of one answer."""
        return Marks(self)


def _move(names: list[str], name: str, place: int) -> None:
    if name in names:
        names.remove(name)
    names.insert(place, name)


@dataclass(slots=True)
class _Mark:
    start: int
    version: str
    source: Exactness


class Marks:
    """Where in one answer which version began, as far as announcements tell. Mutable: it grows while that is sampled.

    Positions count the answer's ids, over all calls that it takes.
    """

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self._marks = [_Mark(0, UNKNOWN_VERSION, "assumed")]
        self._engine = ""

    def begin(self, position: int, engine: str) -> None:
        """A call goes out by which an engine samples from `position` on; what was sampled behind it is discarded."""
        self._engine = engine
        kept = [mark for mark in self._marks if mark.start < position]
        self._marks = kept or [_Mark(0, UNKNOWN_VERSION, "assumed")]
        self.trust(position)

    def mark(self, position: int, version: str, source: Exactness) -> None:
        """From `position` on it is this one that samples.

        Where that is assumed and another was before, it is assumed, too, that that was the one up to here.
        """
        last = self._marks[-1]
        if source == "assumed" and version != last.version:
            last.source = "assumed"
        if (version, source) != (last.version, last.source):
            self._marks.append(_Mark(position, version, source))

    def doubt(self, position: int) -> None:
        """From `position` on other weights may sample than those that were announced."""
        if current := self._versions.current:
            self.mark(position, current.version, "assumed")

    def trust(self, position: int) -> None:
        """From `position` on it is the current version that samples, as surely as it is known to be in the engine.

        However sure that is, what was known of the ids before stays known.
        """
        if current := self._versions.current:
            mark, last = _Mark(position, current.version, self._versions.bounds(self._engine)), self._marks[-1]
            if (mark.version, mark.source) != (last.version, last.source):
                self._marks.append(mark)

    def staleness(self) -> int:
        """How many versions are newer than the oldest that sampled it."""
        return max(self._versions.staleness(mark.version) for mark in self._marks)

    def spans(self, length: int, told: Sequence[VersionSpan]) -> tuple[VersionSpan, ...]:
        """Spans that tile an answer's `length` ids: as the engines `told` them, and by marks where those told nothing.

        `told` tiles it already, with `unknown` where there is nothing better.
        """
        pieces = (self._filled(span, length) if span.version == UNKNOWN_VERSION else [span] for span in told)
        return merged(chain.from_iterable(pieces))

    def _filled(self, span: VersionSpan, length: int) -> Iterable[VersionSpan]:
        ends = [mark.start for mark in self._marks[1:]] + [length]
        for mark, until in zip(self._marks, ends, strict=True):
            start, end = max(span.start, mark.start), min(span.end, until)
            if start < end and mark.version == UNKNOWN_VERSION:
                yield replace(span, start=start, end=end)
            elif start < end:
                yield VersionSpan(mark.version, start, end, mark.source)


def merged(spans: Iterable[VersionSpan]) -> tuple[VersionSpan, ...]:
    """Spans that follow each other, with neighbours of one version and source as one."""
    found: list[VersionSpan] = []
    for span in spans:
        last = found[-1] if found else None
        if last and (last.version, last.source) == (span.version, span.source):
            found[-1] = replace(last, end=span.end)
        else:
            found.append(span)
    return tuple(found)
