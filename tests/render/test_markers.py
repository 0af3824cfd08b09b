"""A format and a tokenizer, put together once."""

import time

import pytest

from gateway.render.formats import FORMATS
from gateway.render.markers import Markers
from gateway.render.stream_parser import TokenParser
from tests.render import families


def test_a_tokenizer_without_the_formats_tokens_is_refused():
    """By the name of what is missing."""
    with pytest.raises(ValueError, match="no <｜tool▁calls▁begin｜>"):
        Markers(FORMATS["deepseek-v3"], families.small("qwen3"), ())


def test_a_marker_that_a_tokenizer_has_as_a_token_counts_by_its_id():
    """R1 has tokens for thoughts, V3 has not; one format serves both."""
    text = "<think>"
    assert [i for i, found in families.markers("deepseek-r1").marks.items() if found[1] == text]
    assert not [i for i, found in families.markers("deepseek-v3").marks.items() if found[1] == text]


def test_a_parser_is_made_without_another_look_at_the_vocabulary(qwen):
    """It is made for each answer, and the vocabulary takes 50 ms."""
    markers = Markers(FORMATS["qwen3"], qwen, ())
    prompt = qwen.encode("word " * 50_000 + "<|im_start|>assistant\n<think>\n")
    started = time.process_time()
    parsers = [TokenParser(markers, prompt_ids=prompt) for _ in range(100)]

    assert parsers[0].is_thinking
    assert time.process_time() - started < 1
