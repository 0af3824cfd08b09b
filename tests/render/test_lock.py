"""One thread at a time encodes with a tokenizer, and the event loop does not stand still for it."""

import gc
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock, RLock, current_thread
from time import sleep
from weakref import ref

from gateway.core.types import Message, Sampling, TurnRequest
from gateway.render.certification import Certifications
from gateway.render.lock import lock_of
from gateway.render.options import Resolution
from gateway.render.prime import prime_renderer
from gateway.render.registry import Renderers
from gateway.render.room import outgrows
from gateway.render.translator import Translator
from tests.render.doubles import PlainRenderer, PlainTokenizer

HISTORIES = [[Message("user", f"{nth}: <think> naïve 漢字 <|im_end|> " * 40)] for nth in range(4)]


class Watched(PlainTokenizer):
    """Encodes slowly, and notes who does so while another does."""

    def __init__(self):
        self.busy, self.overlaps, self.threads = Lock(), 0, set()

    def encode(self, text, *, add_special_tokens=True):
        self.threads.add(current_thread())
        alone = self.busy.acquire(blocking=False)
        self.overlaps += not alone
        sleep(0.001)
        if alone:
            self.busy.release()
        return super().encode(text)


class Encoding(PlainRenderer):
    """Every method of it encodes."""

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    def render_ids(self, messages, *, tools=None, add_generation_prompt=False):
        return self.tokenizer.encode("rendered")

    def bridge_to_next_turn(self, prompt, completion, new, *, tools=None):
        return [*prompt, *completion, *self.tokenizer.encode("bridged")]

    def parse_response(self, token_ids):
        self.tokenizer.encode("parsed")
        return self.response


class Waiting(Encoding):
    """One that says it takes several calls at once."""

    calls_at_once = 4


def side_by_side(*tasks):
    """What they return, each begun many times, on four threads."""
    with ThreadPoolExecutor(4) as pool:
        return [future.result() for future in [pool.submit(task) for _ in range(8) for task in tasks]]


def work_of(translator):
    question = [Message("user", "x")]
    long = TurnRequest((Message("user", "x" * 1000),), sampling=Sampling())
    return (
        lambda: translator.render(question, ()),
        lambda: translator.bridge([1], [2], question, (), ()),
        lambda: translator.parsed([1], [2], ()),
        lambda: outgrows(long, 100, translator.tokenizer),
    )


def test_renderers_that_share_a_tokenizer_encode_in_turn_whatever_the_threads():
    """Rendering, bridging, parsing, and counting what is too long."""
    tokenizer = Watched()
    translators = [Translator(Encoding(tokenizer), tokenizer) for _ in range(2)]

    side_by_side(*(task for translator in translators for task in work_of(translator)))

    assert len(tokenizer.threads) > 1
    assert tokenizer.overlaps == 0


def test_a_renderer_that_takes_several_calls_at_once_is_given_them():
    """It waits for a network, and others would wait with it."""
    tokenizer = Watched()

    side_by_side(work_of(Translator(Waiting(tokenizer), tokenizer))[0])

    assert tokenizer.overlaps > 0


def test_a_tokenizer_has_one_lock_as_long_as_it_lives():
    """Whoever holds it may take it again; another tokenizer has another; none is kept alive by it."""
    tokenizer, other = PlainTokenizer(), PlainTokenizer()

    with lock_of(tokenizer), lock_of(tokenizer):
        assert lock_of(tokenizer) is lock_of(tokenizer) is not lock_of(other)

    assert isinstance(lock_of(tokenizer), type(RLock()))
    gone = ref(tokenizer)
    del tokenizer
    gc.collect()
    assert gone() is None


def test_two_renderers_of_a_real_tokenizer_write_the_same_on_four_threads_as_on_one(qwen):
    """With the ids of control tokens, which a render under other options would spell."""
    renderers = (
        prime_renderer("qwen3", qwen, model=qwen.name_or_path, config={}, retention=kept, template_kwargs={})
        for kept in ("all", "tool_cycle")
    )
    translators = [Translator(renderer, qwen) for renderer in renderers]
    tasks = [(translator, history) for history in HISTORIES for translator in translators]
    alone = [translator.render(history, ()) for translator, history in tasks]

    with ThreadPoolExecutor(4) as pool:
        assert alone == list(pool.map(lambda task: task[0].render(task[1], ()), tasks))


def test_what_a_real_tokenizer_encodes_with_the_same_options_is_right_without_the_lock(qwen):
    """So the event loop may encode what a stop string leaves of a token while a prompt is rendered."""
    text = HISTORIES[0][0].content * 20
    long, tail = (qwen.encode(piece, add_special_tokens=False) for piece in (text, " tail <think>"))

    def one(nth):
        piece, expected = (text, long) if nth % 2 else (" tail <think>", tail)
        return qwen.encode(piece, add_special_tokens=False) == expected

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(24)))


def test_renderers_are_made_and_tried_by_one_thread_at_a_time():
    """Whatever the template arguments are, and however many threads ask."""

    class Made(Encoding):
        def __init__(self, template_kwargs):
            super().__init__(tokenizer)
            self.certifications: Certifications[object] = Certifications()
            tokenizer.encode("tried")

    tokenizer = Watched()
    renderers = Renderers(tokenizer, Resolution("own", "made", "by a test", Made))

    translators = side_by_side(*(partial(renderers.get, {"at": at}) for at in range(3)))

    assert len(tokenizer.threads) > 1
    assert tokenizer.overlaps == 0
    assert set(renderers.certifications) >= {one.renderer.certifications for one in translators[-3:]}
