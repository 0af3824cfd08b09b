"""What Prometheus sees of known traffic."""

from gateway.edge.metrics import Metrics
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
    one.turns.labels(status="complete").inc()

    assert b'gateway_turns_total{status="complete"} 1.0' in one.text()
    assert b'gateway_turns_total{status="complete"}' not in two.text()
