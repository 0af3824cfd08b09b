"""Ids to text as they come."""

from collections.abc import Sequence

from gateway.render.protocol import Tokenizer


class Decoder:
    """A stand-in."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []

    def feed(self, token_ids: Sequence[int]) -> str:
        """Text that is final."""
        return "".join(map(self._one, token_ids))

    def _one(self, token_id: int) -> str:
        self._ids.append(token_id)
        text = self._tokenizer.decode(self._ids)
        if text.endswith("\ufffd"):
            return ""
        self._ids = []
        return text

    def finish(self) -> str:
        """The rest."""
        text = self._tokenizer.decode(self._ids)
        self._ids = []
        return text
