"""What engines say beside ids and logprobs is kept where it is wanted, and of bridged turns only what is new."""

import base64
from threading import current_thread

import pytest
from structlog.testing import capture_logs

from gateway.core.side_arrays import stitched
from gateway.core.turn import Turn
from gateway.sim.side_arrays import routed_experts, sampling_mask
from gateway.wire.arrays import encode_side_array, read_npy
from tests.edge.house import HELLO, House, OpenHouse, Words, until, user, waiting
from tests.edge.keeping import KeepingStore

FLAGS = {"routed_experts": (2, 4), "sampling_mask": True}
BOTH = ("routed_experts", "sampling_mask")


def row_array(name: str, turns: list[Turn]):
    """The array of the row that ends in the last of `turns`."""
    starts = [turn.prompt_length for turn in turns]
    ends = [turn.sequence.length for turn in turns]
    return stitched(
        name, list(zip(starts, ends, [turn.completion.side_arrays.get(name) for turn in turns], strict=True))
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_parts_of_three_turns_make_up_what_the_engine_says_of_the_whole_row(
    open_house: OpenHouse, words: Words, stream: bool
) -> None:
    """Experts of every id that was read, each sent once, and a list for each id that was sampled."""
    store = KeepingStore()
    house = await open_house(store=store, sim=FLAGS, side_arrays=BOTH)
    history = list(HELLO)
    for number in range(3):
        answer = await house.ask("s", history, words.said(f"Answer {number}."), top_k=4)
        history += [answer.message, user(f"And {number}?")]

    one, two, three = store.turns
    assert [turn.how for turn in store.turns] == ["rendered", "bridged", "bridged"]
    starts = [params.get("routed_experts_prompt_start", 0) for params in house.params]
    assert starts == [0, *(turn.prompt_length + len(turn.completion.ids) - 1 for turn in (one, two))]
    ids, experts, masks = (
        three.sequence.ids().tolist(),
        row_array(BOTH[0], store.turns),
        row_array(BOTH[1], store.turns),
    )
    dtype, shape, data = read_npy(base64.b64decode(routed_experts(ids, 0, 2, 4)))
    assert experts is not None
    assert (experts.start, experts.dtype, experts.shape, experts.data) == (0, dtype, shape, data)
    assert masks is not None
    (row,) = await house.rows("s")
    assert row["side_arrays"] == {BOTH[0]: encode_side_array(experts), BOTH[1]: encode_side_array(masks)}
    assert (masks.start, masks.end) == (one.prompt_length, len(ids))
    assert masks.part(masks.end - 1, masks.end).data == b"".join(
        token_id.to_bytes(4, "little") for token_id in sampling_mask(ids[-1], 4)
    )


async def test_an_engine_that_was_not_started_for_it_is_no_error(open_house: OpenHouse) -> None:
    """Each turn is counted, and the engine named once."""
    house = await open_house(side_arrays=("routed_experts",))
    with capture_logs() as logged:
        assert [(await house.ask("s")).status for _ in range(2)] == [200, 200]

    assert await house.metric("gateway_side_arrays_missing_total") == 2
    assert [line["array"] for line in logged if "side array" in line["event"]] == ["routed_experts"]
    assert [row["side_arrays"] for row in await house.rows("s")] == [{"routed_experts": None}] * 2


async def test_a_mask_of_half_a_vocabulary_is_not_sampled(open_house: OpenHouse) -> None:
    """To read it would hold everybody else up."""
    house = await open_house(sim=FLAGS, side_arrays=BOTH)

    refused = await house.ask("s", top_k=4097)

    assert (refused.status, refused.error["param"], house.journal) == (400, "top_k", [])


async def test_large_experts_are_decoded_elsewhere_and_kept_all_the_same(open_house: OpenHouse) -> None:
    """Many layers, so that a short prompt is enough."""
    store = KeepingStore()
    house = await open_house(store=store, sim={"routed_experts": (1 << 12, 16)}, side_arrays=("routed_experts",))
    assert (await house.ask("s", [user("many words " * 20)])).status == 200

    (turn,) = store.turns
    assert len(turn.completion.side_arrays["routed_experts"].data) > 1 << 20


async def test_nothing_is_kept_that_was_not_wanted(open_house: OpenHouse) -> None:
    """Whatever the engine sends."""
    store = KeepingStore()
    house = await open_house(store=store, sim={"routed_experts": (2, 4)})
    assert (await house.ask("s")).status == 200

    assert store.turns[0].completion.side_arrays == {}


async def _in_flight(house: House, turns: int) -> bool:
    return await house.metric("gateway_turns_in_flight") == turns


async def test_large_experts_of_a_turn_that_was_given_up_are_decoded_elsewhere_too(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another answer of the same call fails when one has all of its own."""
    threads: list[str] = []

    def noted(file: bytes) -> tuple[str, tuple[int, ...], bytes]:
        threads.append(current_thread().name)
        return read_npy(file)

    monkeypatch.setattr("gateway.wire.side_arrays.read_npy", noted)
    store = KeepingStore()
    house = await open_house(store=store, sim={"routed_experts": (1 << 12, 16)}, side_arrays=("routed_experts",))
    house.faults.inject("stall", after=0)
    async with waiting(house, "s", [user("many words " * 20)], n=2):
        await until(lambda: sum(bool(entry.emitted) for entry in house.journal) == 1)
        await until(lambda: _in_flight(house, 1), within_s=5)  # until its end has been read
    await until(lambda: store.turns)

    (turn,) = store.turns
    assert len(turn.completion.side_arrays["routed_experts"].data) > 1 << 20
    assert len(threads) == 1
    assert "MainThread" not in threads
