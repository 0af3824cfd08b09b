"""Whatever a model writes: streamed in any pieces it is the message that it is when read at once."""

from functools import cache, lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.render.formats import DEMO, FORMATS
from gateway.render.markers import Markers
from gateway.render.registry import load_tokenizer
from gateway.render.stream_parser import TokenParser
from tests.render import families

SMALL = [name for name in FORMATS if name != "qwen3"]


class Writer:
    """What a model of one format may sample: ids, by a tokenizer and its markers."""

    def __init__(self, name, tokenizer, stop):
        self.tokenizer, self.stop_id = tokenizer, tokenizer.convert_tokens_to_ids(stop)
        self.markers = markers = Markers({"demo": DEMO, **FORMATS}[name], tokenizer, [self.stop_id])
        self.encode = lru_cache(None)(lambda text: self.tokenizer.encode(text, add_special_tokens=False))
        header = self.encode(markers.form.headers[0])
        self.prompts = [[], header, header + self.encode("<think>\n"), header + self.encode("<think>\n\n</think>\n\n")]
        texts = st.sampled_from([*families.TEXTS, *families.CALLS[name]] * 2 + [stop])
        byte = [self.tokenizer.convert_tokens_to_ids(token) for token in "ðŁĺĢĠé"]
        ids = st.integers(0, len(self.tokenizer.get_vocab()) - 1) | st.sampled_from(byte)
        fragment = texts.map(self.encode) | st.builds(self.torn, texts, st.integers(1, 4)) | ids.map(lambda i: [i])
        self.completions = st.lists(fragment, max_size=9).map(lambda parts: [i for part in parts for i in part])

    def torn(self, text, size):
        """A text in ids that the tokenizer would not choose: markers in it are spelled."""
        return [i for at in range(0, len(text), size) for i in self.encode(text[at : at + size])]

    def words(self, completion):
        """What it says before its stop id, without markers and white space."""
        end = completion.index(self.stop_id) if self.stop_id in completion else len(completion)
        text = self.tokenizer.decode(completion[:end])
        for marker in (*self.markers.form.tokens, *self.markers.form.texts):
            text = text.replace(marker, "")
        return text.strip()


def joined(deltas):
    """What they tell of content, reasoning and calls; each tells one of them."""
    for delta in deltas:
        assert [delta.content is not None, delta.reasoning_content is not None, delta.tool_calls != ()].count(True) == 1
    content = "".join(delta.content or "" for delta in deltas)
    return content, "".join(d.reasoning_content or "" for d in deltas), [call for d in deltas for call in d.tool_calls]


def streamed_is_whole(writer, completion, sizes, prompt):
    whole = TokenParser(writer.markers, prompt_ids=prompt)
    pieces = TokenParser(writer.markers, prompt_ids=prompt)
    single = joined(whole.feed(completion))
    deltas, at, nth = [], 0, 0
    while at < len(completion):
        size = sizes[nth % len(sizes)]
        deltas += pieces.feed(completion[at : at + size])
        at, nth = at + size, nth + 1
    content, reasoning, calls = joined(deltas)

    message = pieces.finish()
    assert message == whole.finish()
    assert (content, reasoning, calls) == single
    assert message.content.startswith(content)
    assert (message.reasoning_content or "").startswith(reasoning)
    assert list(message.tool_calls[: len(calls)]) == calls
    (message.content + (message.reasoning_content or "")).encode()
    assert message.content or message.reasoning_content or message.tool_calls or not writer.words(completion)


sizes = st.lists(st.integers(1, 12), min_size=1, max_size=3)


@cache
def demo():
    tokenizer = load_tokenizer(str(FOLDER), MODEL_NAME)
    return Writer("demo", tokenizer, "<|im_end|>")


@pytest.fixture(scope="module")
def qwen_writer(qwen):
    return Writer("qwen3", qwen, "<|im_end|>")


small = cache(lambda name: Writer(name, families.small(name), families.STOP))


@given(st.data(), sizes, st.integers(0, 3))
def test_the_demo_streams_the_message_that_it_gives_at_once(data, sizes, prompt):
    """Its own tokenizer; text to the last space."""
    writer = demo()
    streamed_is_whole(writer, data.draw(writer.completions), sizes, writer.prompts[prompt])


@given(st.data(), sizes, st.integers(0, 3))
def test_qwen3_streams_the_message_that_it_gives_at_once(qwen_writer, data, sizes, prompt):
    """The real tokenizer of 150,000 tokens."""
    completion = data.draw(qwen_writer.completions)
    streamed_is_whole(qwen_writer, completion, sizes, qwen_writer.prompts[prompt])


@given(st.sampled_from(SMALL), st.data(), sizes, st.integers(0, 3))
def test_every_family_streams_the_message_that_it_gives_at_once(name, data, sizes, prompt):
    """Markers that are tokens, and markers that are text over several of them."""
    writer = small(name)
    streamed_is_whole(writer, data.draw(writer.completions), sizes, writer.prompts[prompt])
