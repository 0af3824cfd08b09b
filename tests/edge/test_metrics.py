"""What Prometheus sees of known traffic."""

import asyncio

import pytest

from gateway.edge.engine import Engine
from gateway.edge.metrics import Metrics
from gateway.render.discovery import AnswerFormat
from gateway.render.formats import DEMO
from gateway.render.registry import Renderers
from gateway.render.template import TemplateRenderer
from tests.edge.house import HELLO, House, OpenHouse, Words, user


async def test_the_counters_tell_what_happened(house: House, words: Words) -> None:
    """Turns by status, prompts by how and why, tokens, and errors by code."""
    first = await house.ask("s", HELLO, words.said("Hi."))
    messages = [*HELLO, {"role": "assistant", "content": " Hi."}, user("And?")]
    await house.ask("s", messages, words.said("Yes."))
    house.faults.inject("cut", after=2)
    await house.ask("s", messages, words.said("No."))
    house.faults.inject("no_logprobs")
    await house.ask("s", messages, words.said("No."))

    assert first.status == 200
    assert await house.metric("gateway_turns_total", status="complete") == 2
    assert await house.metric("gateway_turns_total", status="aborted") == 1
    assert await house.metric("gateway_prompts_total", how="rendered", reason="first_turn") == 1
    assert await house.metric("gateway_prompts_total", how="bridged") == 2
    assert await house.metric("gateway_message_differences_total", kind="content_whitespace") == 2
    assert await house.metric("gateway_errors_total", code="engine_unavailable") == 1
    assert await house.metric("gateway_errors_total", code="engine_protocol_error") == 1
    sampled = len(words.said("Hi.")) + len(words.said("Yes.")) + 2
    assert await house.metric("gateway_tokens_total", type="completion") == sampled
    assert await house.metric("gateway_tokens_total", type="prompt") == sum(map(len, house.prompts[:3]))
    assert await house.metric("gateway_turns_in_flight") == 0


async def test_what_is_known_of_bridges_is_counted(open_house: OpenHouse, words: Words, renderers: Renderers) -> None:
    """Turns that were proven, and shapes by what became of them, those that are tried at start among both.

    There the answer has a thought, which this template takes out when a user speaks: that is told of no shape.
    """
    tokenizer = renderers.tokenizer
    renderer = TemplateRenderer(tokenizer, {}, answers=AnswerFormat("demo", "given", tokenizer, DEMO))
    house = await open_house(renderer=renderer)
    await house.ask("s", HELLO, words.said("Hi."))
    await house.ask("s", [*HELLO, {"role": "assistant", "content": "Hi."}, user("And?")], words.said("Yes."))
    renderer.certifications.refuse("a shape", renderer.certifications.due("a shape"))

    assert await house.metric("gateway_prompts_total", how="bridged") == 1
    assert await house.metric("gateway_bridge_audits_total", result="passed") == 2
    assert await house.metric("gateway_bridge_audits_total", result="failed") == 0
    assert await house.metric("gateway_bridge_shapes", state="certified") == 2
    assert await house.metric("gateway_bridge_shapes", state="refused") == 1
    assert await house.metric("gateway_bridge_shapes", state="revoked") == 0


async def test_no_label_grows_with_traffic(house: House, words: Words) -> None:
    """Another hundred sessions, request ids and unknown routes add no line to the exposition."""

    async def traffic(number: int) -> None:
        await house.ask(f"s{number}", HELLO, words.said("Hi."), headers={"X-Request-Id": f"r{number}"})
        await house.call("GET", f"/nothing/{number}")
        await house.ask(f"..{number}/..", HELLO)
        await house.ask("s", HELLO, chat_template_kwargs={f"x{number}": 1})

    async def lines() -> int:
        return len((await house.call("GET", "/metrics")).body.splitlines())

    await traffic(0)
    before = await lines()
    for number in range(1, 20):
        await traffic(number)

    assert await lines() == before


async def test_the_exposition_is_in_prometheus_own_type(house: House) -> None:
    """Or a scraper would not read it."""
    answer = await house.call("GET", "/metrics")

    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")


async def test_engines_are_there_before_their_first_turn(open_house: OpenHouse) -> None:
    """A gauge at zero, not a missing one."""
    house = await open_house()

    assert "gateway_turns_in_flight{" in (await house.call("GET", "/metrics")).body


def test_two_gateways_of_one_process_count_apart() -> None:
    """Each has a registry of its own."""
    one, two = Metrics(), Metrics()
    one.turns.inc("chat", "complete")

    assert b'gateway_turns_total{dialect="chat",status="complete"} 1.0' in one.text()
    assert b'gateway_turns_total{dialect="chat",status="complete"} 0.0' in two.text()


@pytest.mark.parametrize(("interval", "audits"), [(1, range(4, 5)), (40, range(2))])
async def test_as_many_bridges_are_held_against_a_full_render_as_the_setting_says(
    open_house: OpenHouse, words: Words, interval: int, audits: range
) -> None:
    """`--bridge-audit-interval 1` holds all; else the first of a shape, unless it was tried at start, and some others."""
    house = await open_house(renderer="template", bridge_audit_interval=interval)
    before = await house.metric("gateway_bridge_audits_total", result="passed")
    for session in "abcd":
        first = await house.ask(session, HELLO, words.said(f"Hi, {session}."))
        await house.ask(session, [*HELLO, first.message, user("And?")], words.said("Yes."))

    assert await house.metric("gateway_prompts_total", how="bridged") == 4
    assert await house.metric("gateway_bridge_audits_total", result="passed") - before in audits


async def test_an_engine_that_is_back_before_it_is_gone_is_told_of(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last words are not waited for; what is told is of the one that came at its URL."""
    house = await open_house()
    (engine,) = (await house.call("GET", "/admin/engines")).body["data"]
    begun, added, close = asyncio.Event(), asyncio.Event(), Engine.close

    async def linger(engine: Engine) -> None:
        begun.set()
        await added.wait()
        await close(engine)

    monkeypatch.setattr(Engine, "close", linger)
    removal = asyncio.create_task(house.call("DELETE", f"/admin/engines?url={engine['url']}"))
    await begun.wait()
    assert (await house.send("POST", "/admin/engines", url=engine["url"])).status == 200
    added.set()
    assert (await removal).status == 200

    text = (await house.call("GET", "/metrics")).body
    label = engine["url"].removeprefix("http://")
    for name in ("gateway_side_arrays_missing_total", "gateway_rank_up"):
        assert [line for line in text.splitlines() if line.startswith(name) and f'engine="{label}"' in line], name
