"""Turns whose prompts the engine itself renders, end to end."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp.test_utils import unused_port

from gateway.errors import ConfigError
from gateway.render import render_server
from gateway.render.render_server import RETRIES
from gateway.sim import RENDER_FAULTS, RENDERS, create_sim
from tests.edge.house import HELLO, TOOLS, House, OpenHouse, Words, extends, serving, until, user
from tests.edge.process import START_S, flags, gateway
from tests.simulated import simulated


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renders are asked for again at once."""
    monkeypatch.setattr(render_server, "RETRIES", RETRIES.new(backoff_factor=0, backoff_jitter=0))


@pytest.fixture
async def remote(open_house: OpenHouse, tokenizer_folder: str) -> AsyncIterator[House]:
    """A gateway that asks its engine for renders."""
    with simulated(tokenizer=tokenizer_folder, max_model_len=4096) as (url, sim):
        house = await open_house(renderer="remote", engine=(url,))
        yield House(house.http, sim)
        await house.http.close()


async def test_turns_are_bridged_by_what_the_engine_renders(remote: House, words: Words) -> None:
    """Tools and thoughts included; each prompt begins with all that was read and sampled before."""
    said = words.called("Look it up.", "weather", {"city": "Zürich"})
    first = await remote.ask("s", HELLO, said, tools=TOOLS)
    call = first.message["tool_calls"][0]
    history = [*HELLO, first.message, {"role": "tool", "tool_call_id": call["id"], "content": "12°"}]
    second = await remote.ask("s", history, words.said("Cold."), tools=TOOLS)
    third = await remote.ask("s", [*history, second.message, user("Thanks.")], words.said("!"), tools=TOOLS)

    assert third.status == 200
    assert [turn["how"] for turn in await remote.turns("s")] == ["rendered", "bridged", "bridged"]
    assert extends(remote.prompts[1], remote.prompts[0] + said)
    [row] = await remote.rows("s")
    assert row["token_ids"][: len(remote.prompts[2])] == remote.prompts[2]


async def test_what_the_engine_refuses_is_told_in_the_agents_dialect(remote: House) -> None:
    """Busy after several tries: 503, to be tried again. A fault of the request: final, in its words."""
    faults = remote.sim[RENDER_FAULTS]
    faults.inject("error_503", times=2)
    assert (await remote.ask("s")).status == 200
    faults.inject("error_503", times=5)
    busy = await remote.ask("t")
    assert (busy.status, "Retry-After" in busy.headers) == (503, True)
    ill = await remote.ask("t", chat_template_kwargs={"truncate_prompt_tokens": "x"})
    assert (ill.status, ill.error["code"]) == (400, "invalid_request")
    assert "Input should be a valid integer" in ill.error["message"]
    assert await remote.turns("t") == []


async def test_a_template_of_the_clients_own_is_no_template_argument(remote: House) -> None:
    """Nor goes it to the engine."""
    ill = await remote.ask("t", chat_template_kwargs={"chat_template": "{{ 'x' }}"})
    assert (ill.status, ill.error["param"]) == (400, "chat_template_kwargs")


async def test_a_prompt_is_truncated_on_request(remote: House) -> None:
    """By the template arguments of that name; no turn is bridged from it."""
    cut = {"truncate_prompt_tokens": 5}
    first = await remote.ask("s", chat_template_kwargs=cut)
    await remote.ask("s", [*HELLO, first.message, user("And?")], chat_template_kwargs=cut)
    assert [len(prompt) for prompt in remote.prompts] == [5, 5]
    assert [turn["reason"] for turn in await remote.turns("s")][1] == "bridge_declined"
    assert remote.sim[RENDERS][-1]["chat_template_kwargs"] == {}
    long = await remote.ask("t", [user("word " * 20_000)], chat_template_kwargs={"truncate_prompt_tokens": 7})
    assert (long.status, len(remote.prompts[-1])) == (200, 7)


@pytest.mark.process
async def test_the_gateway_may_be_started_before_its_engine(tmp_path: Path, tokenizer_folder: str) -> None:
    """It waits for it; and ends at once when it is told to meanwhile."""
    port = unused_port()
    settings = {"model": tokenizer_folder, "port": 0, "renderer": "remote", "engine": f"http://127.0.0.1:{port}"}
    async with gateway(tmp_path, *flags(**settings)) as early, gateway(tmp_path, *flags(**settings)) as stopped:
        await until(lambda: all("waited for" in process.errors for process in (early, stopped)), within_s=START_S)
        stopped.child.send_signal(signal.SIGTERM)
        async with serving(create_sim(tokenizer=tokenizer_folder, max_model_len=4096), port=port):
            assert await stopped.ended() == 0
            await early.ready()


async def test_without_an_engine_that_renders_the_gateway_does_not_start(open_house: OpenHouse) -> None:
    """And says how to have one."""
    with simulated(scale_out=False) as (url, _), pytest.raises(ConfigError, match="--enable-scale-out"):
        await open_house(renderer="remote", engine=(url,))
    with pytest.raises(ConfigError, match="does not answer"):
        await open_house(renderer="remote", engine=("http://127.0.0.1:9",))
