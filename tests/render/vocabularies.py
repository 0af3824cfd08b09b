"""Tokenizers of other kinds than Qwen3's, and random ids for any of them."""

from functools import cache
from random import Random

from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, normalizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.render.registry import load_tokenizer

_LETTERS = st.one_of(st.sampled_from("ab the\n.,€é温度🤦𓀀\ufffd▁"), st.characters(codec="utf-8"))
TEXT = st.text(_LETTERS)
RANDOM = st.integers(0, 2**32).map(Random)


@cache
def demo():
    """Byte-level, like Qwen3's, and small."""
    return load_tokenizer(str(FOLDER), MODEL_NAME)


@cache
def llama_like():
    """What is not in the vocabulary falls back to bytes, spaces are ``▁``, and the first one of a text is lost."""
    words = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        "t",
        "h",
        "e",
        "a",
        "b",
        "\ufffd",
    ]
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("▁", "a"), ("▁", "▁")]
    vocabulary = {word: nth for nth, word in enumerate([*words, *map("".join, merges)])}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


@cache
def ids_of(tokenizer, max_size=10):
    """Random ids: of texts, of pieces of characters, special ones, any, and such as there are not."""
    vocabulary = tokenizer.get_vocab()
    size = max(vocabulary.values()) + 1
    halves = [vocabulary[name] for name in ("<0xE2>", "<0x82>", "<0xAC>", "<0x41>") if name in vocabulary]
    halves += tokenizer.encode("€𓀀温", add_special_tokens=False)
    some = st.one_of(
        st.lists(st.integers(0, size + 3), max_size=3),
        st.lists(st.sampled_from(halves), max_size=5),
        st.sampled_from([[token_id] for token_id in tokenizer.all_special_ids or halves]),
        st.text(_LETTERS, max_size=6).map(lambda text: tokenizer.encode(text, add_special_tokens=False)),
    )
    return st.lists(some, max_size=max_size).map(lambda lists: [token_id for ids in lists for token_id in ids])


def pieces_of(ids, random, most=6):
    """`ids` in random pieces, some of them empty."""
    at = 0
    while at < len(ids):
        size = random.randint(0, most)
        yield ids[at : at + size]
        at += size


class Counted:
    """A tokenizer that counts the ids that it has decoded."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.name_or_path = tokenizer.name_or_path
        self.decoded = 0

    def decode(self, token_ids, *, skip_special_tokens=False):
        self.decoded += len(token_ids)
        return self.tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens)

    def encode(self, text, *, add_special_tokens=True):
        return self.tokenizer.encode(text, add_special_tokens=add_special_tokens)

    def get_vocab(self):
        return self.tokenizer.get_vocab()
