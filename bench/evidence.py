"""What a gateway recorded under load, and what a trainer is given of it, held against the engine's own journal."""

from collections.abc import Iterator, Mapping, Sequence

from gateway.core.turn import Turn
from gateway.core.types import float32s, token_ids
from gateway.sim import logprob
from gateway.sim.server import Entry
from tests.core.invariants import Shown, audit_row, audit_turn
from tests.core.naive import Above, Sample
from tests.edge.house import House

Recorded = dict[str, list[Turn]]
"""Every turn that was put, by its session."""
_SURE_IDS = 17
"""An engine that has written so many, in three events, has waited twice meanwhile: the first events were read."""


async def breaks_of(
    house: House, recorded: Recorded, request_ids: Mapping[str, str], heard: Mapping[str, Sequence[int]]
) -> list[str]:
    """The invariants that do not hold.

    `request_ids` tells which call of the engine's belongs to a turn, `heard` the ids that clients read of it.
    """
    entries = {entry.request_id: entry for entry in house.journal}
    found: list[str] = []
    for session, turns in recorded.items():
        try:
            samples = {turn.id: _sample(turn, entries[request_ids[turn.id]]) for turn in turns}
            for turn in turns:
                audit_turn(turn, samples[turn.id])
            await _audit_export(house, session, turns, samples)
        except AssertionError as broken:
            found.append(f"{session}: {broken}")
    known = set(request_ids.values())
    lost = [e for e in house.journal if len(e.emitted) > _SURE_IDS and e.request_id not in known]
    found += [f"{e.request_id}: the engine wrote {len(e.emitted)} ids, and nothing was recorded" for e in lost]
    complete = {turn.id: turn for turn in _all(recorded) if turn.status == "complete"}
    for turn_id, ids in heard.items():
        if turn_id not in complete or complete[turn_id].completion.ids.tolist() != list(ids):
            found.append(f"{turn_id}: what its client read is not what was recorded")
    return found


def _sample(turn: Turn, entry: Entry) -> Sample:
    """What the engine says of a turn: all that it emitted to its call, or the beginning, where that was aborted."""
    prompt, emitted = token_ids(_ids(entry)), token_ids(entry.emitted)
    complete = turn.status == "complete"
    sampled = emitted if complete else emitted[: len(turn.completion.ids)]
    logprobs = float32s([logprob(at, token_id) for at, token_id in enumerate(sampled, len(prompt))])
    assert entry.finished or not complete, "a complete turn whose answer the engine did not finish"
    assert turn.prompt_ids() == prompt, "another prompt than the engine's"
    assert turn.completion.ids == sampled, "other ids than the engine's"
    assert turn.completion.logprobs == logprobs, "other logprobs than the engine's"
    end = "stop" if complete else "abort"
    return Sample(turn.id, Above(), (), (), {}, prompt + sampled, len(prompt), logprobs, end)


async def _audit_export(house: House, session: str, turns: Sequence[Turn], samples: Mapping[str, Sample]) -> None:
    """Every turn is trained once where the engine sampled it, or left out because its client never heard of it."""
    told = await house.turns(session)
    assert [(turn["turn_id"], turn["status"]) for turn in told] == [(turn.id, turn.status) for turn in turns]
    page = (await house.call("GET", f"/sessions/{session}/trajectories")).body
    assert page["next"] is None
    trained: list[str] = []
    for row in page["data"]:
        places = [(part["turn_id"], part["start"], part["end"], part["trained"]) for part in row["turns"]]
        audit_row(Shown(row["token_ids"], row["loss_mask"], row["logprobs"], places), samples)
        trained += [turn_id for turn_id, _, _, trains in places if trains]
    excluded = {left["turn_id"]: left["reason"] for left in page["excluded"]}
    assert sorted([*trained, *excluded]) == sorted(samples), "a turn is lost, or trained twice"
    for turn in told:
        because = "aborted" if turn["status"] == "aborted" else "undelivered"
        assert excluded.get(turn["turn_id"], because) == because, "another reason than there can be"
        assert turn["delivered"] is not True or turn["turn_id"] not in excluded, "what arrived is left out"


def _ids(entry: Entry) -> list[int]:
    assert isinstance(entry.token_ids, list)
    return entry.token_ids


def _all(recorded: Recorded) -> Iterator[Turn]:
    return (turn for turns in recorded.values() for turn in turns)
