"""Which anonymous session may a history belong to?

A client that names no session sends its whole history with each request, and that history holds answers of
ours. Every recorded turn is entered under what tells its answer from others:

- the ids of its tool calls, which nobody else has and every client returns;
- without calls, all that was said until then and the answer's gist, with its reasoning, with what stood above, and
  without either;
- what others said until then, for answers that come back rewritten.

A request walks its messages once and looks up each answer in it. Whether a session really knows the history
is for its ledger to say: here are the candidates only.

Mutable state: the attributes of `Prefixes`, written by `enter` and `leave` only.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from gateway.core.canon import Root, gist, identity, split_system
from gateway.core.types import Message, Messages

_MOST_ALIKE = 32
"""Sessions named for one key, and for all rewritten answers together: no request costs more for their number."""

Key = str | int | tuple[int, bytes] | tuple[int, bytes, Root | str]
"""A call's id; what others said; all that was said and an answer's gist, alone or with what it thought or stood below.

What was said is known by its hash, which costs a tenth of a digest: who is named wrongly once in a lifetime is
refused by its ledger.
"""


class Place(NamedTuple):
    """Where an answer stands in a history, the leading system messages left out."""

    length: int
    """How many messages it ends."""
    answer: Message
    others: int
    """Hash of what others said before."""
    whole: int
    """Hash of all that was said before: the text of answers without the white space around it."""


class Prefixes:
    """The prefixes that anonymous sessions know."""

    def __init__(self) -> None:
        self._sessions: dict[Key, dict[str, None]] = {}
        # Ids of sessions by key; the latest last.
        self._keys: dict[str, set[Key]] = {}

    def __len__(self) -> int:
        """How many sessions are entered."""
        return len(self._keys)

    def enter(self, session_id: str, prompt: Messages, answers: Sequence[Message], root: Root) -> None:
        """Note that `session_id` has given `answers`, each of them to `prompt` below `root`."""
        last = places([*prompt, Message("assistant")])[-1]
        for answer in answers:
            known = gist(answer)
            keys: list[Key] = [last.others, (last.whole, known), (last.whole, known, root)]
            keys += [call.id for call in answer.tool_calls]
            if answer.reasoning:
                keys.append((last.whole, known, answer.reasoning.strip()))
            for key in keys:
                sessions = self._sessions.setdefault(key, {})
                sessions.pop(session_id, None)
                sessions[session_id] = None
                self._keys.setdefault(session_id, set()).add(key)

    def leave(self, session_id: str) -> None:
        """Forget a session."""
        for key in self._keys.pop(session_id, ()):
            self._sessions[key].pop(session_id)
            if not self._sessions[key]:
                del self._sessions[key]

    def exact(self, asked: list[Place], root: Root) -> Iterator[tuple[str, int]]:
        """Sessions that gave an answer at one of these places, with how many messages they may know for it.

        Those that may know most come first; among equals those of this very lineage, then the latest.
        """
        named: set[str] = set()
        for place in reversed(asked):
            keys: list[Key] = [call.id for call in place.answer.tool_calls if call.id in self._sessions]
            if not keys and place.others in self._sessions:
                known = gist(place.answer)
                keys = [(place.whole, known, (place.answer.reasoning or "").strip())]
                keys += [(place.whole, known, root), (place.whole, known)]
            yield from self._named(keys, place.length, named)

    def likely(self, asked: list[Place]) -> Iterator[tuple[str, int]]:
        """Sessions that were asked the same, in the same order; whether their answers are these is open."""
        named: set[str] = set()
        found = (each for place in reversed(asked) for each in self._named([place.others], place.length, named))
        return islice(found, _MOST_ALIKE)

    def _named(self, keys: list[Key], length: int, named: set[str]) -> Iterator[tuple[str, int]]:
        """The latest sessions of each key that were not `named` before."""
        for key in keys:
            for session_id in islice(reversed(self._sessions.get(key, {})), _MOST_ALIKE):
                if session_id not in named:
                    named.add(session_id)
                    yield session_id, length


def places(messages: Messages) -> list[Place]:
    """The places of the assistant messages."""
    _, rest = split_system(messages)
    others, whole, found = 0, 0, []
    for length, message in enumerate(rest, 1):
        if message.role == "assistant":
            found.append(Place(length, message, others, whole))
            whole = hash((whole, message.content.strip()))
        else:
            said = identity(message)
            others, whole = hash((others, said)), hash((whole, said))
    return found
