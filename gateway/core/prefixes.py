"""Which anonymous session may a history belong to?

A client that names no session sends its whole history with each request, and that history holds answers of
ours. Every recorded turn is entered under what was said around it: a digest of the messages in its prompt
without the leading system messages, which clients swap, and without the assistant's, which they rewrite; and
once more under that digest and the answer's gist, so that many sessions with one beginning are told apart.
A request walks its messages once and looks up each answer in it. Whether a session really knows the history
is for its ledger to say: here are the candidates only.

Mutable state: the attributes of `Prefixes`, written by `enter` and `leave` only.
"""

from collections.abc import Iterator
from itertools import islice

from gateway.core.canon import EMPTY, extend_digest, gist, split_system
from gateway.core.types import Message, Messages

_MOST_CANDIDATES = 32
"""Sessions named for one history, so that a request costs no more for their number."""


class Prefixes:
    """The prefixes that anonymous sessions know."""

    def __init__(self) -> None:
        self._sessions: dict[bytes, dict[str, None]] = {}
        # Ids of sessions by key; the latest last.
        self._keys: dict[str, set[bytes]] = {}

    def enter(self, session_id: str, prompt: Messages, answer: Message) -> None:
        """Note that `session_id` has given `answer` to `prompt`."""
        _, rest = split_system(prompt)
        digest = EMPTY
        for message in rest:
            if message.role != "assistant":
                digest = extend_digest(digest, message)
        for key in (digest, digest + gist(answer)):
            known = self._sessions.setdefault(key, {})
            known.pop(session_id, None)
            known[session_id] = None
            self._keys.setdefault(session_id, set()).add(key)

    def leave(self, session_id: str) -> None:
        """Forget a session."""
        for key in self._keys.pop(session_id, ()):
            self._sessions[key].pop(session_id)
            if not self._sessions[key]:
                del self._sessions[key]

    def candidates(self, messages: Messages) -> Iterator[tuple[str, int]]:
        """Sessions that may know a part of `messages`, with how many of them, after the leading system ones.

        Those that may know most come first; among equals those whose answer has the same gist, then the
        latest. Their number is bounded.
        """
        return islice(self._candidates(messages), _MOST_CANDIDATES)

    def _candidates(self, messages: Messages) -> Iterator[tuple[str, int]]:
        named: set[str] = set()
        for length, digest, answer in reversed(_answers(messages)):
            if digest not in self._sessions:
                continue
            for key in (digest + gist(answer), digest):
                for session_id in reversed(self._sessions.get(key, {})):
                    if session_id not in named:
                        named.add(session_id)
                        yield session_id, length


def _answers(messages: Messages) -> list[tuple[int, bytes, Message]]:
    """The assistant messages: how many messages they end, and the digest of what others said before."""
    _, rest = split_system(messages)
    digest, answers = EMPTY, []
    for length, message in enumerate(rest, 1):
        if message.role == "assistant":
            answers.append((length, digest, message))
        else:
            digest = extend_digest(digest, message)
    return answers
