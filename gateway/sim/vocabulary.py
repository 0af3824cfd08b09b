"""A tokenizer, and how to write a text in ids that the tokenizer itself would not choose."""

from collections.abc import Sequence
from functools import lru_cache
from os import PathLike
from pathlib import Path
from random import Random

from tokenizers import Tokenizer

_TORN = "\ufffd"
"""What a decoder writes for bytes that are no character."""


@lru_cache(maxsize=4)  # it takes seconds, and tests start many sims
def _load(path: str) -> Tokenizer:
    return Tokenizer.from_file(path)


class Vocabulary:
    """The tokenizer in `folder`. Without a ``tokenizer.json`` there, ``FileNotFoundError``."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        path = Path(folder) / "tokenizer.json"
        if not path.is_file():
            raise FileNotFoundError(f"no tokenizer.json in {folder}")
        self._tokenizer = _load(str(path))
        self._whole = frozenset(self._tokenizer.get_added_tokens_decoder())
        self.size = self._tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """The ids that the tokenizer chooses; with `special`, those that it adds around a text too."""
        return self._tokenizer.encode(text, add_special_tokens=special).ids

    def decode(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        """What ids say; an id that does not exist says nothing."""
        known = [token_id for token_id in ids if 0 <= token_id < self.size]
        return self._tokenizer.decode(known, skip_special_tokens=skip_special)

    def id_of(self, token: str) -> int | None:
        """The id of a token, if it is one."""
        return self._tokenizer.token_to_id(token)

    def name_of(self, token_id: int) -> str:
        """An id as the vocabulary writes it."""
        return self._tokenizer.id_to_token(token_id) or ""

    def spell(self, text: str, rate: float, random: Random) -> list[int]:
        """Ids of `text`, in which about `rate` of the ordinary tokens are split into pieces that say the same.

        Sampled ids are like that now and then, and decoding and encoding them again gives other ids.
        """
        spelt: list[int] = []
        for token_id in self.encode(text):
            spelt += self._split(token_id, random) if random.random() < rate else [token_id]
        return spelt

    def _split(self, token_id: int, random: Random) -> list[int]:
        said = "" if token_id in self._whole else self.decode([token_id])
        if len(said) < 2 or _TORN in said:
            return [token_id]
        at = random.randrange(1, len(said))
        pieces = [*self.encode(said[:at]), *self.encode(said[at:])]
        return pieces if self.decode(pieces) == said else [token_id]
