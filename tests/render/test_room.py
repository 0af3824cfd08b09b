"""A request that cannot fit is found out before it is rendered, and one that can is never taken for it."""

import time

import pytest
from transformers import AutoTokenizer

from gateway.core.types import Message, ToolCall, TurnRequest
from gateway.render.room import outgrows

WINDOW = 4096


class Counting:
    """A tokenizer that remembers how much it was given."""

    name_or_path = "counting"

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.characters = 0

    def encode(self, text, *, add_special_tokens=True):
        self.characters += len(text)
        return self.tokenizer.encode(text, add_special_tokens=add_special_tokens)

    def decode(self, token_ids, *, skip_special_tokens=False):
        return self.tokenizer.decode(token_ids)

    def get_vocab(self):
        return self.tokenizer.get_vocab()


@pytest.fixture(scope="module")
def loaded(tokenizer_folder):
    return AutoTokenizer.from_pretrained(tokenizer_folder)


@pytest.fixture
def tokenizer(loaded):
    return Counting(loaded)


def said(text):
    """A request of one message."""
    return TurnRequest((Message("user", text),))


@pytest.mark.parametrize("text", ["word ", "x", " ", "\n", '{"a": [1, 2]}, ', "\u00e4\u4f60 "])
def test_what_fits_is_never_refused(tokenizer, loaded, text):
    """Though it were of white space only, of which a token holds much."""
    whole = text * 40_000
    ids = loaded.encode(whole[:200_000], add_special_tokens=False)[: WINDOW - 64]
    assert not outgrows(said(loaded.decode(ids)), WINDOW, tokenizer)


@pytest.mark.parametrize("text", ["word ", "x", '{"a": [1, 2]}, ', "\u00e4\u4f60 "])
def test_what_cannot_fit_costs_no_more_than_what_just_does(tokenizer, text):
    """Ten million characters are not tokenized to refuse them."""
    began_s = time.process_time()
    assert outgrows(said(text * (10_000_000 // len(text))), WINDOW, tokenizer)
    assert tokenizer.characters <= WINDOW * 16
    assert time.process_time() - began_s < 1


def test_calls_and_tools_count_and_reasoning_does_not(tokenizer):
    """Templates show the former; many leave the latter out."""
    long = "word " * 100_000
    call = Message("assistant", tool_calls=(ToolCall("c", "f", long),))
    assert outgrows(TurnRequest((call,)), WINDOW, tokenizer)
    assert outgrows(TurnRequest((Message("user", "?"),), tools=({"description": long},)), WINDOW, tokenizer)
    assert not outgrows(TurnRequest((Message("assistant", "?", reasoning=long),)), WINDOW, tokenizer)


def test_many_messages_count_by_themselves(tokenizer):
    """Each has an opening and an end; nothing need be tokenized to know."""
    assert not outgrows(TurnRequest((Message("user", ""),) * (WINDOW // 2)), WINDOW, tokenizer)
    assert outgrows(TurnRequest((Message("user", ""),) * (WINDOW // 2 + 1)), WINDOW, tokenizer)
    assert tokenizer.characters == 0


def test_a_usual_request_is_not_tokenized_twice(tokenizer):
    """Rendering tells soon enough."""
    assert not outgrows(said("word " * 4000), WINDOW, tokenizer)
    assert tokenizer.characters == 0
