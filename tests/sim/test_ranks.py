"""Ranks have queues and prefix caches of their own, so that stickiness can be measured."""

import asyncio

import pytest

from gateway.sim.keys import RANKS
from gateway.sim.ranks import PrefixCache
from tests.sim.conftest import GENERATE, eventually

PROMPT = list(range(1000, 1100))


def on_rank(number: object) -> dict[str, str]:
    """Headers that name a rank."""
    return {"X-data-parallel-rank": str(number)}


def ask(sim, prompt=PROMPT, script=(5,), **fields):
    """A request for a prompt of our choice."""
    return {**sim.ask(list(script)), "token_ids": prompt, **fields}


async def cached(sim, body, **how) -> int:
    """How many tokens of the prompt a whole answer says were cached."""
    usage = (await (await sim.post(body, **how)).json())["usage"]
    tokens: int = usage["prompt_tokens_details"]["cached_tokens"]
    return tokens


async def test_a_prompt_seen_before_is_cached_on_its_rank_and_on_no_other(start):
    """In whole blocks of 16, in the usage, in the journal, and in the metrics of that rank."""
    sim = await start(ranks=2)
    seen = [await cached(sim, ask(sim), headers=on_rank(rank)) for rank in (0, 0, 1)]
    assert seen == [0, 96, 0]
    entries = await sim.get("/sim/journal")
    assert [(one["rank"], one["cached_tokens"], one["prefilled_tokens"]) for one in entries] == [
        (0, 0, 100),
        (0, 96, 4),
        (1, 0, 100),
    ]
    metrics = await sim.metrics()
    assert 'vllm:prefix_cache_queries_total{engine="0",model_name="sim"} 200.0\n' in metrics
    assert 'vllm:prefix_cache_hits_total{engine="0",model_name="sim"} 96.0\n' in metrics
    assert 'vllm:prefix_cache_hits_total{engine="1",model_name="sim"} 0.0\n' in metrics
    assert 'vllm:prompt_tokens_total{engine="0",model_name="sim"} 200.0\n' in metrics
    assert 'vllm:generation_tokens_total{engine="0",model_name="sim"} 2.0\n' in metrics
    assert 'vllm:request_success_total{engine="0",finished_reason="stop",model_name="sim"} 2.0\n' in metrics


async def test_the_next_turn_finds_what_was_generated_in_the_cache(start):
    """A prompt that extends the last prompt and its completion is computed only from there on."""
    sim = await start()
    script = list(range(50))
    await sim.post(ask(sim, script=script))
    assert await cached(sim, ask(sim, prompt=[*PROMPT, *script, 7, 8, 9])) == 144


async def test_a_cache_is_apart_by_salt_and_can_be_cleared(start):
    """Another `cache_salt` finds nothing; nor does anybody after a reset, or a pause that clears."""
    sim = await start()
    await sim.post(ask(sim))
    assert await cached(sim, ask(sim, cache_salt="other")) == 0
    for path in ("/reset_prefix_cache", "/pause?mode=keep", "/pause?mode=keep&clear_cache=false"):
        assert await cached(sim, ask(sim)) == 96
        await sim.http.post(path)
        await sim.http.post("/resume")
        assert await cached(sim, ask(sim)) == (96 if path.endswith("false") else 0)


async def test_a_usage_event_tells_what_was_cached(start):
    """Since 0.32; a stream counts as a whole answer does."""
    sim = await start()
    await sim.post(ask(sim))
    body = ask(sim, stream=True, stream_options={"include_usage": True})
    assert (await sim.chunks(body))[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 96}


def test_the_least_recently_used_block_is_forgotten_first():
    """A cache never holds more than its capacity, and what was matched counts as used."""
    cache = PrefixCache(block_size=2, capacity=2)
    cache.add([1, 1], None)
    cache.add([2, 2], None)
    assert cache.match([1, 1, 0], None) == 2
    cache.add([3, 3], None)
    assert [cache.match([n, n, 0], None) for n in (1, 2, 3)] == [2, 0, 2]


def test_a_prefix_loses_its_end_first():
    """What is left of it can still be found."""
    cache = PrefixCache(block_size=2, capacity=3)
    cache.add([1, 1, 2, 2, 3, 3], None)
    cache.add([9, 9], None)
    assert cache.match([1, 1, 2, 2, 3, 3, 4], None) == 4


def test_the_last_id_of_a_prompt_is_never_cached():
    """An engine must compute something to sample from."""
    cache = PrefixCache(block_size=2, capacity=9)
    cache.add([1, 2, 3, 4], None)
    assert [cache.match([1, 2, 3, 4], None), cache.match([1, 2, 3, 4, 5], None)] == [2, 4]


async def test_without_the_header_requests_spread_over_the_ranks(start):
    """Equally loaded ranks take turns, and a header that is no number counts for nothing."""
    sim = await start(ranks=3)
    for headers in ({}, {}, on_rank("abc"), {}):
        await sim.post(ask(sim), headers=headers)
    assert [entry["rank"] for entry in await sim.get("/sim/journal")] == [0, 1, 2, 0]


async def test_without_the_header_the_least_loaded_rank_is_chosen(start):
    """Load is what runs and what waits."""
    sim = await start(ranks=2, token_delay_s=0.01)
    long = ask(sim, script=range(1000))
    calls = [asyncio.create_task(sim.post(long, headers=on_rank(0))) for _ in range(2)]
    await eventually(lambda: len(sim.log.entries) == 2)
    for _ in range(2):
        await sim.post(ask(sim))
    assert [entry["rank"] for entry in await sim.get("/sim/journal")] == [0, 0, 1, 1]
    for call in calls:
        call.cancel()


@pytest.mark.parametrize("number", [2, -1])
async def test_a_rank_that_does_not_exist_is_refused_since_0_22(start, number):
    """In vLLM's words; a stream has begun by then. Older releases do not know the header."""
    sim, old = await start(ranks=2), await start(ranks=2, version="0.21.0")
    response = await sim.post(ask(sim), headers=on_rank(number))
    body = await response.json()
    assert response.status == 400
    assert body["error"]["message"] == f"data_parallel_rank {number} is out of range [0, 2)."
    stream = await sim.post(ask(sim, stream=True), headers=on_rank(number))
    assert (stream.status, await stream.read()) == (200, b"data: %b\n\ndata: [DONE]\n\n" % await response.read())
    assert (await old.post(ask(old), headers=on_rank(number))).status == 200
    assert [entry["rank"] for entry in await sim.get("/sim/journal")] == [None, None]


async def test_a_full_rank_makes_others_wait_in_line(start):
    """No more than `max_running` at once; the rest is counted as waiting, and served in order."""
    sim = await start(max_running=1, token_delay_s=0.005)
    calls = [asyncio.create_task(sim.whole(ask(sim, script=range(20)))) for _ in range(3)]
    await eventually(lambda: len(sim.log.entries) == 3)
    metrics = await sim.metrics()
    assert 'vllm:num_requests_running{engine="0",model_name="sim"} 1.0\n' in metrics
    assert 'vllm:num_requests_waiting{engine="0",model_name="sim"} 2.0\n' in metrics
    assert (await sim.get("/load")) == {"server_load": 3}
    await asyncio.gather(*calls)
    metrics = await sim.metrics()
    assert 'vllm:num_requests_waiting{engine="0",model_name="sim"} 0.0\n' in metrics
    assert 'vllm:kv_cache_usage_perc{engine="0",model_name="sim"} 0.0\n' in metrics


async def test_who_leaves_the_line_is_not_served(start):
    """A client that gives up while it waits frees its place in the queue."""
    sim = await start(max_running=1, token_delay_s=0.005)
    first, second = [asyncio.create_task(sim.whole(ask(sim, script=range(40)))) for _ in range(2)]
    await eventually(lambda: len(sim.log.entries) == 2)
    usage = [line for line in (await sim.metrics()).splitlines() if line.startswith("vllm:kv_cache_usage_perc{")]
    assert float(usage[0].split()[-1]) > 0
    second.cancel()
    await eventually(lambda: sim.log.running == 1)
    assert 'vllm:num_requests_waiting{engine="0",model_name="sim"} 0.0\n' in await sim.metrics()
    assert len((await first)["token_ids"]) == 40


async def test_an_engine_with_too_many_requests_says_so(start):
    """A 503 since 0.29, streamed or not; before, they wait."""
    new, old = await start(max_queued=0), await start(max_queued=0, version="0.28.0")
    for stream in (False, True):
        response = await new.post(ask(new, stream=stream))
        assert (response.status, (await response.json())["error"]["type"]) == (503, "Service Unavailable")
        assert (await old.post(ask(old, stream=stream))).status == 200


async def test_computing_a_prompt_takes_time_unless_it_is_cached(start):
    """Each token that must be prefilled costs; the first token costs something of its own."""
    sim = await start(prefill_delay_s=0.002, first_token_delay_s=0.01)
    loop, took = asyncio.get_running_loop(), []
    for _ in range(2):
        began = loop.time()
        await sim.http.post(GENERATE, json=ask(sim))
        took.append(loop.time() - began)
    assert took[0] >= 0.21
    assert 0.018 <= took[1] < took[0]


async def test_what_a_rank_has_not_read_is_counted_until_it_says_something(start):
    """Also what waits in line, and what is given up there; the most there was of it is kept."""
    sim = await start(max_running=1, first_token_delay_s=0.05, token_delay_s=0.01)
    (rank,) = sim.http.app[RANKS]
    calls = [asyncio.create_task(sim.whole(ask(sim, script=range(20)))) for _ in range(3)]
    await eventually(lambda: rank.unread_tokens == 300)
    calls.pop().cancel()
    await eventually(lambda: rank.unread_tokens == 100)
    assert rank.running == 1
    await asyncio.gather(*calls)
    assert (rank.unread_tokens, rank.most_unread_tokens) == (0, 300)
