"""Ids to text as they come, exactly as the tokenizer would say them all at once."""

from codecs import getincrementaldecoder
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass

from gateway.render.protocol import Tokenizer
from gateway.render.token_text import TORN, token_texts

_CONTEXT = 16
"""Ids before the new ones that are decoded with them: what those say may depend on the last four bytes, which are one
character at least, and a leading space is lost only at the very start."""
_SYNCHRONISED_CHARS = 4
"""Cut off from what came before, up to three bytes may say something else; the fourth is read as it is meant."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one id adds to the text."""

    text: str
    torn: bool
    """Whether it ends within a character, as far as one can tell: bytes that are none look like the start of one."""


class Decoder:
    """Ids to text as they come: whatever the pieces, the texts join to what the tokenizer says of all ids at once.

    Linear in the ids. What may yet become a character is held back until the next ids tell; so is a run of
    byte-fallback tokens, which is text only if all of it is. Ids that the tokenizer does not know say nothing.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._decode = tokenizer.decode
        self._texts = token_texts(tokenizer)
        self._window: list[int] = []
        self._told_chars = 0
        self._run: list[int] = []
        self._is_torn = False

    @property
    def holds_back(self) -> bool:
        """Whether some of the ids have not been told in full."""
        return self._is_torn or bool(self._run)

    def copy(self) -> "Decoder":
        """Another one that goes on from here."""
        other = copy(self)
        other._window, other._run = [*self._window], [*self._run]
        return other

    def feed(self, ids: Sequence[int]) -> str:
        """Take the next ids; the text that is final by now."""
        end = self._end_of_final(ids)
        if not end:
            self._run += ids
            return ""
        self._window += self._known([*self._run, *ids[:end]])
        self._run = [*ids[end:]]
        text = self._decode(self._window)
        final = self._final(text)
        piece, self._told_chars = final[self._told_chars :], len(final)
        self._is_torn = len(final) < len(text)
        if len(self._window) > 2 * _CONTEXT:
            self._forget()
        return piece

    def step(self, token_id: int) -> list[Said]:
        """As `feed`, told apart by id: in the order of the ids, one each, those of a run when it has ended."""
        run = self._run
        text = self.feed([token_id])
        if self._run:
            return []
        said = self._said(run)
        return [*said, Said(text[sum(len(one.text) for one in said) :], self._is_torn)]

    def held(self) -> list[Said]:
        """What the ids say that `step` has not told of, if no more come."""
        return self._said(self._run)

    def finish(self) -> str:
        """No more ids will come: the rest, in which half a character reads as U+FFFD."""
        self._window += self._known(self._run)
        self._run, self._is_torn = [], False
        return self._decode(self._window)[self._told_chars :]

    def _end_of_final(self, ids: Sequence[int]) -> int:
        """How many of `ids` come before a run of bytes that may go on."""
        run = self._texts.bytes_by_id
        if not run:
            return len(ids)
        return next((n for n in range(len(ids), 0, -1) if ids[n - 1] not in run and self._known(ids[n - 1 : n])), 0)

    def _known(self, ids: Iterable[int]) -> list[int]:
        return [token_id for token_id in ids if self._texts.is_known(token_id)]

    def _final(self, text: str) -> str:
        """Without what may be the start of a character: that reads as one U+FFFD, however many bytes it has."""
        return text if self._texts.bytes_by_id else text.removesuffix(TORN)

    def _forget(self) -> None:
        """Keep the context only; as it is, while too little of it is text."""
        context = self._window[-_CONTEXT:]
        text = self._decode(context)
        if len(text) >= _SYNCHRONISED_CHARS:
            self._window, self._told_chars = context, len(self._final(text))

    def _said(self, run: list[int]) -> list[Said]:
        """A run of bytes by its ids: characters if all of it is UTF-8, else one U+FFFD a byte."""
        pieces = [self._texts.of(token_id)[1] for token_id in run]
        try:
            b"".join(pieces).decode()
        except UnicodeDecodeError:
            return [Said(TORN * len(piece), torn=False) for piece in pieces]
        utf8 = getincrementaldecoder("utf-8")()
        return [Said(utf8.decode(piece), torn=bool(utf8.getstate()[0])) for piece in pieces]
