"""Whatever a model writes and wherever it is stopped: told in any pieces it is the message that it is when read at once."""

import itertools
from functools import cache, lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.types import Sampling, TurnRequest
from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.render.reading import Reading
from gateway.render.registry import load_tokenizer, renderers_for
from gateway.render.translator import Translator
from tests.render import families
from tests.render.doubles import PlainRenderer

SMALL = [name for name in families.CONTROL if name not in ("demo", "qwen3")]
PROMPTS = 4


class Writer:
    """What a model of one format may sample: ids, by the tokenizer and the stop ids of a translator."""

    def __init__(self, name, translator):
        self.translator, self.tokenizer = translator, translator.tokenizer
        self.stop_ids = set(translator.stop_ids)
        self.form = families.form(name)
        self.encode = lru_cache(None)(lambda text: self.tokenizer.encode(text, add_special_tokens=False))
        header = self.encode(self.form.headers[0])
        self.prompts = [[], header, header + self.encode("<think>\n"), header + self.encode("<think>\n\n</think>\n\n")]
        stop = self.tokenizer.decode(translator.stop_ids[:1])
        texts = st.sampled_from([*families.TEXTS, *families.CALLS[name]] * 2 + [stop])
        byte = [self.tokenizer.get_vocab()[token] for token in "ðŁĺĢĠé"]
        ids = st.integers(0, len(self.tokenizer.get_vocab()) - 1) | st.sampled_from(byte)
        fragment = texts.map(self.encode) | st.builds(self.torn, texts, st.integers(1, 4)) | ids.map(lambda i: [i])
        self.completions = st.lists(fragment, max_size=9).map(lambda parts: [i for part in parts for i in part])

    def torn(self, text, size):
        """A text in ids that the tokenizer would not choose: markers in it are spelled."""
        return [i for at in range(0, len(text), size) for i in self.encode(text[at : at + size])]

    def words(self, completion):
        """What it says before its stop id, without markers and white space."""
        end = next((at for at, token_id in enumerate(completion) if token_id in self.stop_ids), len(completion))
        text = self.tokenizer.decode(completion[:end])
        for marker in (*self.form.tokens, *self.form.texts):
            text = text.replace(marker, "")
        return text.strip()

    def samplings(self, completion):
        """None or some stop strings, cut from what the completion says; two characters match more often than ten."""
        text = self.tokenizer.decode(completion)
        cut = st.builds(lambda at, size: text[at : at + size], st.integers(0, len(text)), st.integers(1, 10))
        stops = st.lists(cut.filter(bool), max_size=2).map(tuple) if text else st.just(())
        return st.builds(
            Sampling, stop=stops, include_stop_str_in_output=st.booleans(), min_tokens=st.sampled_from([0, 3])
        )

    def reading(self, prompt, sampling):
        numbers = itertools.count()
        return Reading(self.translator, prompt, TurnRequest((), sampling=sampling), lambda: f"call_{next(numbers)}")


def joined(deltas):
    """What they tell of content, reasoning and calls."""
    content = "".join(delta.content for delta in deltas)
    return content, "".join(delta.reasoning for delta in deltas), tuple(delta.call for delta in deltas if delta.call)


def streamed_is_whole(writer, data, sizes, prompt):
    completion = data.draw(writer.completions)
    sampling = data.draw(writer.samplings(completion))
    whole = writer.reading(writer.prompts[prompt], sampling)
    single = whole.feed(completion)
    expected = whole.finish()

    pieces, told, at = writer.reading(writer.prompts[prompt], sampling), [], 0
    for size in itertools.cycle(sizes):
        if at >= len(completion):
            break
        told += pieces.feed(completion[at : at + size])
        at += size
    early = joined(told)
    ending = pieces.finish()

    assert (ending.answer, ending.kept, pieces.shown) == (expected.answer, expected.kept, whole.shown)
    message = ending.answer.message
    said = message.content, message.reasoning or "", message.tool_calls
    assert joined([*told, *ending.rest]) == said
    assert joined([*single, *expected.rest]) == said
    (message.content + (message.reasoning or "")).encode()
    if not sampling.stop:
        assert early == joined(single)  # nothing waits because of where the pieces end
        assert "unparsed" not in ending.answer.flags or not writer.words(completion)
        assert ending.kept is None


sizes = st.lists(st.integers(1, 12), min_size=1, max_size=3)
prompts = st.integers(0, PROMPTS - 1)


def writer_of(name, tokenizer):
    """With the renderer that the gateway itself finds for it."""
    renderers, _ = renderers_for("auto", tokenizer, None, retention="all", bridgeless_ok=False)
    return Writer(name, renderers.get({}))


@cache
def demo():
    return writer_of("demo", load_tokenizer(str(FOLDER), MODEL_NAME))


@pytest.fixture(scope="module")
def qwen_writer(qwen):
    return writer_of("qwen3", qwen)


@cache
def small(name):
    """A family whose own tokenizer and renderer are not at hand: its markers, and a parse that says something else."""
    markers, renderer = families.markers(name), PlainRenderer()
    renderer.get_stop_token_ids = lambda: sorted(markers.stop_ids)  # type: ignore[method-assign]  # the family's
    return Writer(name, Translator(renderer, families.small(name), markers=markers))


@given(st.data(), sizes, prompts)
def test_the_demo_streams_the_message_that_it_gives_at_once(data, sizes, prompt):
    """Its own tokenizer; text to the last space."""
    streamed_is_whole(demo(), data, sizes, prompt)


@given(st.data(), sizes, prompts)
def test_qwen3_streams_the_message_that_it_gives_at_once(qwen_writer, data, sizes, prompt):
    """The real tokenizer of 150,000 tokens, and prime's renderer beside our parser."""
    streamed_is_whole(qwen_writer, data, sizes, prompt)


@given(st.sampled_from(SMALL), st.data(), sizes, prompts)
def test_every_family_streams_the_message_that_it_gives_at_once(name, data, sizes, prompt):
    """Markers that are tokens, and markers that are text over several of them."""
    streamed_is_whole(small(name), data, sizes, prompt)
