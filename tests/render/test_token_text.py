"""Single tokens as text and bytes: the bytes of a completion's tokens are its text, wherever characters are split."""

import pytest
from hypothesis import given

from gateway.render.token_text import token_texts
from tests.render.doubles import PlainTokenizer
from tests.render.vocabularies import TEXT, demo, llama_like


def joined(tokenizer, text):
    """The bytes of every token of a text."""
    texts = token_texts(tokenizer)
    return b"".join(texts.of(token_id)[1] for token_id in tokenizer.encode(text, add_special_tokens=False))


@given(TEXT)
def test_bytes_join_to_the_text(text):
    """Of a byte-level vocabulary, and of one that falls back to bytes, which begins every text with a space."""
    assert joined(demo(), text) == text.encode()
    assert joined(llama_like(), text) == (f" {text}" if text else "").replace("▁", " ").encode()


@given(TEXT)
def test_bytes_join_to_the_text_with_a_real_tokenizer(qwen, text):
    """It composes characters first."""
    assert joined(qwen, text) == qwen.decode(qwen.encode(text)).encode()


def test_half_a_character_is_its_bytes(qwen):
    """Its text is what decoders write for it."""
    texts = [token_texts(qwen).of(token_id) for token_id in qwen.encode("𓀀")]

    assert [text for text, _ in texts] == ["\ufffd"] * 3
    assert b"".join(data for _, data in texts) == "𓀀".encode()


def test_a_character_that_looks_torn_is_itself(qwen):
    """U+FFFD may be said like any other."""
    assert [token_texts(qwen).of(token_id) for token_id in qwen.encode("\ufffd")] == [("\ufffd", b"\xef\xbf\xbd")]


@pytest.mark.parametrize("kind", [demo, llama_like])
def test_special_tokens_are_their_names(kind):
    """As in the text that the client sees."""
    tokenizer = kind()
    for name, token_id in tokenizer.get_added_vocab().items():
        assert token_texts(tokenizer).of(token_id) == (name, name.encode())


def test_a_space_that_only_a_beginning_loses_is_kept():
    """A token stands in the middle of a text."""
    tokenizer = llama_like()
    vocabulary = tokenizer.get_vocab()

    assert token_texts(tokenizer).of(vocabulary["▁the"]) == (" the", b" the")
    assert token_texts(tokenizer).of(vocabulary["<0xE2>"]) == ("\ufffd", b"\xe2")
    assert token_texts(tokenizer).of(vocabulary["<0x41>"]) == ("A", b"A")


def test_an_id_that_does_not_exist_says_nothing(qwen):
    """An engine's vocabulary may be padded."""
    for tokenizer in (qwen, demo(), llama_like()):
        assert token_texts(tokenizer).of(10**6) == ("", b"")
        assert not token_texts(tokenizer).is_known(10**6)


def test_a_tokenizer_of_no_known_kind_says_what_it_decodes():
    """Also of ids that it does not list."""
    texts = token_texts(PlainTokenizer())

    assert [texts.of(97), texts.of(0xE9)] == [("a", b"a"), ("é", "é".encode())]
    assert texts.is_known(0xE9)


def test_a_vocabulary_is_read_once():
    """It takes too long for a call."""
    assert token_texts(demo()) is token_texts(demo())
