"""What single tokens say: as text, and as the exact bytes that they stand for."""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

from gateway.render.protocol import Tokenizer

TORN = "\ufffd"
"""What a tokenizer says of bytes that are no character, or not yet."""
_PRINTED = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
"""Bytes that a byte-level vocabulary spells as the Latin-1 character of that number; the others follow from U+0100."""
_BYTE_OF = {chr(byte): byte for byte in _PRINTED} | {
    chr(0x100 + nth): byte for nth, byte in enumerate(byte for byte in range(0x100) if byte not in _PRINTED)
}
_HALF = "Ã"
"""How a byte-level vocabulary spells 0xC3, which is no character by itself."""


def written_text(tokenizer: Any, token_ids: Sequence[int]) -> str:  # one of transformers, which takes more options
    """The text of ids as it was written: control tokens and white space included."""
    text: str = tokenizer.decode(token_ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text


class TokenTexts:
    """Every token of a tokenizer by itself. Made once for each: `token_texts` keeps it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._decode = tokenizer.decode
        self.vocabulary = vocabulary = tokenizer.get_vocab()
        """Every token and its id, as at first: to ask again takes as long again."""
        self._spellings = {token_id: spelling for spelling, token_id in vocabulary.items()}
        # Both are told by what the tokenizer does with them: any vocabulary may hold such a word.
        self._is_byte_level = _HALF in vocabulary and self._decode([vocabulary[_HALF]]) == TORN
        falls_back = "<0x41>" in vocabulary and self._decode([vocabulary["<0x41>"]]) == "A"
        spelt = {byte: f"<0x{byte:02X}>" for byte in range(0x100)} if falls_back else {}
        self.bytes_by_id = {vocabulary[name]: byte for byte, name in spelt.items() if name in vocabulary}
        """Tokens of one byte that are decoded as a run: to characters if all of the run is UTF-8, else to none."""
        self._known: dict[int, tuple[str, bytes]] = {}

    def is_known(self, token_id: int) -> bool:
        """Whether there is such a token; one that there is not says nothing."""
        return token_id in self._spellings or self._decode([token_id]) != ""

    def of(self, token_id: int) -> tuple[str, bytes]:
        """The token's text and bytes, ``("", b"")`` when it is unknown.

        The bytes of ids in a row join to their text in UTF-8, where every single text may be U+FFFD.
        """
        if token_id not in self._spellings:  # not kept, or what is kept would have no bound
            return self._read(token_id)
        if token_id not in self._known:
            self._known[token_id] = self._read(token_id)
        return self._known[token_id]

    def _read(self, token_id: int) -> tuple[str, bytes]:
        text = self._decode([token_id])
        if token_id in self.bytes_by_id:
            return text, bytes([self.bytes_by_id[token_id]])
        if not self._is_byte_level:
            text = self._decode([token_id, token_id])[len(text) :]  # the first of a text may lose its space
            return text, text.encode()
        spelling = self._spellings.get(token_id, "")
        if TORN in text and all(letter in _BYTE_OF for letter in spelling):
            return text, bytes(_BYTE_OF[letter] for letter in spelling)
        return text, text.encode()


def token_texts(tokenizer: Tokenizer) -> TokenTexts:
    """The tokens of `tokenizer`, made once: a large vocabulary takes a fifth of a second."""
    assert isinstance(tokenizer, Hashable)  # as objects are
    return _made(tokenizer)


@lru_cache(maxsize=8)
def _made(tokenizer: Tokenizer) -> TokenTexts:
    return TokenTexts(tokenizer)
