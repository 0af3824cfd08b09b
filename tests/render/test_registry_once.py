"""A renderer for each set of template arguments is made once, whoever asks for it meanwhile, and whoever hangs up."""

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any
from weakref import ref

import pytest

from gateway.errors import RendererError
from gateway.render.bridge import Proof
from gateway.render.certification import Certifications
from gateway.render.options import Resolution
from gateway.render.patience import GivenUpError, Patience, patience
from gateway.render.registry import Renderers, renderers_for
from tests.render.doubles import PlainRenderer


def test_many_threads_that_ask_for_new_template_arguments_at_once_get_one_renderer(qwen):
    """To make it may take many calls of a server."""
    renderers, _ = renderers_for("template", qwen, None, retention="all", bridgeless_ok=False)

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: renderers.get({"enable_thinking": False}), range(8)))

    assert len(set(map(id, made))) == 1


def test_audits_are_counted_for_good_however_many_template_arguments_clients_choose(qwen):
    """A counter never runs backwards, though the renderers that counted are gone."""
    renderers, _ = renderers_for("template", qwen, None, retention="all", bridgeless_ok=False)
    certifications: Certifications[Proof] = vars(renderers.get({"v": "first"}).renderer)["certifications"]
    certifications.certify("a shape", Proof(0, "", 0))
    before = renderers.audits.counts()["passed"]
    gone = ref(certifications)
    del certifications

    for nth in range(32):
        renderers.get({"v": nth})
    gc.collect()

    assert gone() is None
    assert renderers.audits.counts()["passed"] == before


def test_a_renderer_that_could_not_be_made_is_made_for_who_asks_later(qwen):
    """A server that renders may have been away for a moment."""
    made = [RendererError("away"), PlainRenderer()]

    def make(template_kwargs):
        one = made.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    renderers = Renderers(qwen, Resolution("own", "flaky", "it was given", make))
    with pytest.raises(RendererError, match="away"):
        renderers.get({})

    assert isinstance(renderers.get({}).renderer, PlainRenderer)


def test_who_hangs_up_while_a_renderer_is_made_leaves_it_to_who_waits(qwen):
    """Neither holds a thread for longer than somebody waits, nor costs the other anything."""
    under_way = Event()
    made: list[Any] = [lambda: patience().sleep(60), PlainRenderer]

    def make(template_kwargs):
        under_way.set()
        return made.pop(0)()

    renderers = Renderers(qwen, Resolution("own", "slow", "it was given", make))
    first, second, third = Patience(), Patience(), Patience()
    with ThreadPoolExecutor(3) as pool:
        gone = pool.submit(first.run, lambda: renderers.get({}))
        under_way.wait()
        waiting, gone_too = (pool.submit(one.run, lambda: renderers.get({})) for one in (second, third))
        third.leave()
        with pytest.raises(GivenUpError):
            gone_too.result(timeout=5)
        first.leave()

        with pytest.raises(GivenUpError):
            gone.result(timeout=5)
        assert isinstance(waiting.result(timeout=5).renderer, PlainRenderer)
