"""What an answer of several calls shows: whose policy sampled what, what engines said beside the ids, and by whom."""

import asyncio
import base64

import pytest

from gateway.core.side_arrays import SideArray
from gateway.sim import JOURNAL
from gateway.sim.side_arrays import routed_experts, sampling_mask
from gateway.wire.arrays import encode_side_array, read_npy
from tests.edge.house import Json, OpenHouse, until
from tests.edge.pair import EOS, SAID, Pair, open_pair

LONG: Json = {"ignore_eos": True, "max_tokens": 40}
BOTH = ("routed_experts", "sampling_mask")
AGAIN = [*SAID, EOS] * 10


async def name_weights(pair: Pair, url: str, version: str) -> None:
    """Tell an engine what its policy is."""
    async with pair.house.http.session.post(f"{url}/update_weight_version", json={"new_version": version}) as answer:
        assert answer.status == 200


def spans_of(turn: Json) -> list[tuple[str, str, int, int]]:
    """Which policy sampled what, and who says so."""
    return [(span["version"], span["source"], span["start"], span["end"]) for span in turn["policy_versions"]]


@pytest.mark.parametrize("streams", [False, True])
async def test_over_two_cuts_each_position_has_its_arrays_and_its_policy(
    open_house: OpenHouse, *, streams: bool
) -> None:
    """The experts of what an engine read before it was lost are told of by the next; its policy nobody tells."""
    sim: Json = {"routed_experts": (2, 1), "sampling_mask": True}
    async with open_pair(open_house, sim, side_arrays=BOTH) as pair:
        await name_weights(pair, pair.home, "v1")
        await name_weights(pair, pair.away, "v2")
        pair.faults.inject("abort", after=16)
        pair.faults.inject("cut", after=5)
        told = await pair.ask(streams=streams, top_k=20, **LONG)
        (turn,) = await pair.turns()
        (row,) = [row for row in await pair.house.rows(pair.session) if row["row_id"] == turn["turn_id"]]

    assert told.status == 200
    assert [(cut["position"], cut["reason"]) for cut in turn["cuts"]] == [(16, "abort"), (21, "lost")]
    assert turn["completion_ids"] == AGAIN[:16] + AGAIN[:5] + AGAIN[:19]
    assert spans_of(turn) == [("v1", "engine", 0, 16), ("unknown", "assumed", 16, 21), ("v2", "engine", 21, 40)]
    ids, prompt_tokens = row["token_ids"], len(turn["prompt_ids"])
    dtype, shape, data = read_npy(base64.b64decode(routed_experts(ids, 0, 2, 1)))
    experts, masks = (row["side_arrays"][name] for name in BOTH)
    assert experts == encode_side_array(SideArray(0, dtype, shape, data))
    due = [number for token_id in turn["completion_ids"] for number in sampling_mask(token_id, 20)]
    held = base64.b64decode(masks["array"]["base64"])
    assert (masks["start"], held) == (prompt_tokens, b"".join(number.to_bytes(4, "little") for number in due))


@pytest.mark.parametrize("streams", [False, True])
async def test_the_event_that_completes_a_stop_string_is_heard_of_policies(
    open_house: OpenHouse, *, streams: bool
) -> None:
    """It may be the engine's last."""
    async with open_pair(open_house) as pair:
        await name_weights(pair, pair.away, "v2")
        pair.faults.inject("cut", after=1)
        told = await pair.ask(streams=streams, stop="o, wor", max_tokens=50)
        (turn,) = await pair.turns()

    assert (told.status, turn["ended_by"], turn["completion_ids"]) == (200, "stop", [SAID[0], *SAID])
    assert spans_of(turn) == [("unknown", "assumed", 0, 1), ("v2", "engine", 1, 4)]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("version", ["0.20.2", "0.27.0"])
async def test_an_answer_goes_on_at_an_engine_of_another_version(
    open_house: OpenHouse, version: str, *, streams: bool
) -> None:
    """One that names no policies; what was announced holds for its part."""
    async with open_pair(open_house, {}, {"version": version}) as pair:
        await name_weights(pair, pair.home, "engine's")
        await pair.house.send("POST", "/admin/policy", version="announced")
        pair.faults.inject("abort", after=16)
        for kind in ("error_500", "error_503"):
            pair.faults.inject(kind)
        told = await pair.ask(streams=streams, logprobs=True, **LONG)
        (turn,) = await pair.turns()

    assert told.status == 200
    assert turn["engine"] == pair.away
    assert turn["completion_ids"] == AGAIN[:16] + AGAIN[:24]
    assert len(told.choice["logprobs"]["content"]) == 40
    assert spans_of(turn) == [("engine's", "engine", 0, 16), ("announced", "assumed", 16, 40)]


@pytest.mark.parametrize("after", [0, 3])
async def test_a_quiet_abort_holds_no_answer_up(open_house: OpenHouse, after: int) -> None:
    """A call that is cut before its first id is kept open where an abort does harm: the pause waits for that to come."""
    async with open_pair(open_house, sim={"first_token_delay_s": 0.3, "token_delay_s": 0.01}, abort_quiet_s=30) as pair:
        asking = asyncio.ensure_future(pair.ask(streams=True, **LONG))
        await until(lambda: pair.calls and (not after or len(pair.calls[0].emitted) >= after))
        assert (await pair.house.send("POST", "/admin/pause", mode="cut")).status == 200
        assert pair.sims[pair.home][JOURNAL].running == 0
        await pair.house.send("POST", "/admin/resume")
        await until(lambda: len(pair.calls) == 2, within_s=0.25)
        told = await asking
        (turn,) = await pair.turns()
        await until(lambda: not pair.sims[pair.home][JOURNAL].running)

    assert (told.status, turn["completion_tokens"], len(turn["cuts"])) == (200, 40, bool(after))
    assert pair.calls[0].disconnected
