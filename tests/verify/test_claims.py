"""Claims that no real export of these tests makes, or that only a forger breaks: on rows written from the documents."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.verify.verdict import Verdict, verify
from tests.verify.writer import Json, Turns, certified, footer_of, form, lines, numbers, packed, rows_of


def looked(tmp_path: Path, content: bytes) -> Verdict:
    """What is said of a file of this content."""
    file = tmp_path / "rows"
    file.write_bytes(content)
    return verify(file)


def session() -> list[Json]:
    """Two rows that share a turn, with side arrays."""
    turns = Turns()
    turns.add("a")
    turns.add("b", "a")
    turns.add("c", "a")
    return [certified(row | {"side_arrays": side_arrays(row)}) for row in rows_of(turns, "bc")]


def side_arrays(row: Json) -> Json:
    """Routing of all but the last id, and for each sampled id a mask of it and another."""
    ids, first = row["token_ids"], row["turns"][0]["start"]
    sampled = {at for turn in row["turns"] for at in range(turn["start"], turn["end"])}
    items = [[ids[at], 9] if at in sampled else [] for at in range(first, len(ids))]
    flat = [number for item in items for number in item]
    offsets = [sum(map(len, items[:at])) for at in range(len(items) + 1)]
    return {
        "routed_experts": {"start": 0, "array": form("|u1", [len(ids) - 1, 2, 1], bytes(range(2 * len(ids) - 2)))},
        "sampling_mask": {
            "start": first,
            "offsets": form("<u4", [len(offsets)], packed("token_ids", offsets)),
            "array": form("<u4", [len(flat)], packed("token_ids", flat)),
        },
    }


def change(*path: Any, to: Any) -> Callable[[list[Json]], None]:
    """One value of the rows is another."""

    def changed(rows: list[Json]) -> None:
        holder: Any = rows
        for name in path[:-1]:
            holder = holder[name]
        holder[path[-1]] = to

    return changed


def side(name: str, **fields: Any) -> Callable[[list[Json]], None]:
    """A side array of the second row has other fields."""
    return lambda rows: rows[1]["side_arrays"][name].update(fields)


def ids_of_mask(row: int, number: int) -> Callable[[list[Json]], None]:
    """In the sampling mask of a row, its first number is another."""

    def changed(rows: list[Json]) -> None:
        held = rows[row]["side_arrays"]["sampling_mask"]["array"]
        ids = numbers({"token_ids": held}, "token_ids")
        held |= form("<u4", [len(ids)], packed("token_ids", [number, *ids[1:]]))

    return changed


def cut(position: int, **fields: Any) -> Json:
    """A cut of the first turn, which went on where it was."""
    place = {"from_engine": "http://engine-0:8000", "from_rank": 0, "to_engine": "http://engine-0:8000", "to_rank": 0}
    return {"position": position, "reason": "lost", **place, "kv": "kept", **fields}


def cuts(*said: Json) -> Callable[[list[Json]], None]:
    """The first turn was cut so."""
    return change(0, "turns", 0, "cuts", to=list(said))


OFFSETS = form("<u4", [3], packed("token_ids", [0, 1, 12]))
EVERYWHERE = form("<u4", [9], packed("token_ids", [0, 2, 4, 6, 7, 8, 10, 11, 12]))


def test_rows_with_side_arrays_are_accepted(tmp_path):
    """As they are."""
    rows = session()
    assert looked(tmp_path, lines(rows, footer_of(rows))).mismatch is None


def test_a_turn_that_was_cut_is_accepted(tmp_path):
    """Away and back."""
    rows = session()
    cuts(cut(1, to_engine="http://b", to_rank=2), cut(2, from_engine="http://b", from_rank=2))(rows)
    rows[1]["turns"][0]["cuts"] = rows[0]["turns"][0]["cuts"]
    rows = [certified(held) for held in rows]
    assert looked(tmp_path, lines(rows, footer_of(rows))).mismatch is None


@pytest.mark.parametrize(
    ("corrupt", "row", "place"),
    [
        (side("routed_experts", start=1), 2, "side_arrays.routed_experts.start"),
        (side("routed_experts", array=form("|u1", [22], bytes(22))), 2, "side_arrays.routed_experts.array.shape"),
        (side("routed_experts", array=form("|u1", [11, 2, 1], bytes(22))), 2, "certificate.turns[0].side_arrays"),
        (side("sampling_mask", start=3), 2, "side_arrays.sampling_mask.start"),
        (side("sampling_mask", offsets=OFFSETS), 2, "side_arrays.sampling_mask.offsets"),
        (side("sampling_mask", offsets=EVERYWHERE), 2, "side_arrays.sampling_mask.offsets[3]"),
        (ids_of_mask(1, 7), 2, "side_arrays.sampling_mask.offsets[0]"),
        (change(1, "side_arrays", "entropy", to=side_arrays(session()[1])["routed_experts"]), 2, "side_arrays.entropy"),
        (change(0, "teacher_logprobs", to=[0.0]), 1, "teacher_logprobs"),
        (change(0, "turns", to=[]), 1, "turns"),
        (change(0, "turns", 1, "end", to=99), 1, "turns[1].end"),
        (change(0, "turns", 1, "end", to=11), 1, "turns[1].end"),
        (change(0, "turns", 0, "start", to=7), 1, "turns[0].end"),
        (change(0, "turns", 0, "policy_versions", 0, "end", to=4), 1, "turns[0].policy_versions[0].end"),
        (change(0, "turns", 0, "policy_versions", 0, "source", to="hearsay"), 1, "turns[0].policy_versions[0].source"),
        (change(0, "turns", 0, "policy_versions", 0, to={"version": "v1"}), 1, "turns[0].policy_versions[0].start"),
        (change(0, "turns", 0, "policy_versions", to=[]), 1, "turns[0].policy_versions"),
        (change(0, "turns", 0, "finish_reason", to="bored"), 1, "turns[0].finish_reason"),
        (change(0, "turns", 0, "logprobs_mode", to="cooked"), 1, "turns[0].logprobs_mode"),
        (change(0, "turns", 0, "sampling", "top_p", to="wide"), 1, "turns[0].sampling"),
        (change(0, "turns", 0, "sampling", "min_tokens", to=2), 1, "turns[0].distribution"),
        (change(0, "turns", 0, "sampling", "presence_penalty", to=0.1), 1, "turns[0].distribution"),
        (change(0, "turns", 0, "sampling", "logit_bias", to={"1": 1.0}), 1, "turns[0].distribution"),
        (change(0, "turns", 0, "sampling", "logit_bias", to=[1.0]), 1, "turns[0].sampling"),
        (change(0, "turns", 0, "logprobs_mode", to="unknown"), 1, "turns[0].logprobs_exact"),
        (change(0, "turns", 0, "sampling", "extra_args", to={"a": 1}), 1, "turns[0].distribution"),
        (change(0, "turns", 0, "flags", to=["constrained"]), 1, "turns[0].distribution"),
        (change(0, "turns", 0, "sampling", "bad_words", to=["no"]), 1, "turns[0].distribution"),
        (change(0, "turns", 0, "sampling", "allowed_token_ids", to=[1]), 1, "turns[0].distribution"),
        (change(0, "turns", 0, "sampling", "allowed_token_ids", to={"1": 1}), 1, "turns[0].sampling"),
        (change(0, "turns", 0, "sampling", "thinking_token_budget", to=0), 1, "turns[0].distribution"),
        (cuts({}), 1, "turns[0].cuts[0].position"),
        (cuts(cut(0)), 1, "turns[0].cuts[0].position"),
        (cuts(cut(9)), 1, "turns[0].cuts[0].position"),
        (cuts(cut(1), cut(1)), 1, "turns[0].cuts[1].position"),
        (cuts(cut(1, reason="mood")), 1, "turns[0].cuts[0].reason"),
        (cuts(cut(1, kv="lost")), 1, "turns[0].cuts[0].kv"),
        (cuts(cut(1, to_engine="http://b")), 1, "turns[0].cuts[0].to_engine"),
        (cuts(cut(1, to_rank=1)), 1, "turns[0].cuts[0].to_rank"),
        (cuts(cut(1, to_rank=1), cut(2)), 1, "turns[0].cuts[0].to_rank"),
        (change(0, "turns", 0, "cuts", to=[7]), 1, "turns[0].cuts[0]"),
        (change(0, "certificate", "selection", "shared", to="thrice"), 1, "certificate.selection.shared"),
        (change(0, "certificate", "selection", "distribution", to=["greedy"]), 1, "turns[0].trained"),
        (change(1, "row_index", to=0), 2, "row_index"),
        (change(0, "row_index", to=5), 1, "row_index"),
        (change(1, "row_index", to=5), 2, "row_index"),
        (change(1, "n_rows", to=5), 2, "n_rows"),
        (change(1, "group_id", to="g"), 2, "group_id"),
        (change(0, "turns", 0, "parent_id", to="a"), 1, "turns[0].parent_id"),
        (change(0, "certificate", "selection", "include", to=["all"]), 1, "certificate.selection.include"),
        (change(0, "parent_row_id", to="b"), 1, "parent_row_id"),
        (change(0, "logprobs", to=form("<f4", [1 << 62] * 300, b"")), 1, "logprobs"),
        (change(0, "logprobs", to=form("<f4", [1 << 63], b"")), 1, "logprobs.shape"),
    ],
)
def test_a_claim_that_does_not_hold_is_refused_though_all_hashes_are_right(tmp_path, corrupt, row, place):
    """By its place."""
    rows = session()
    corrupt(rows)
    rows = [held if held["turns"] == [] else forged(held) for held in rows]
    found = looked(tmp_path, lines(rows, footer_of(rows))).mismatch

    assert found is not None
    assert (row, place) == (found.row, found.at[: len(place)]), str(found)


@pytest.mark.parametrize(
    ("sampling", "distribution", "exact"),
    [
        ({}, "exact", True),
        ({"temperature": 0.7}, "exact", False),
        ({"top_p": 0.5}, "truncated", False),
        ({"extra_args": {"a": 1}}, "unknown", False),
    ],
)
def test_of_an_engine_that_has_not_told_logprobs_are_exact_that_are_so_in_either_mode(
    tmp_path, sampling, distribution, exact
):
    """And no others."""
    said = {"sampling": {"temperature": 1.0} | sampling, "distribution": distribution, "logprobs_mode": "untold"}
    for claimed in (True, False):
        turns = Turns()
        turns.add("a", logprobs_exact=claimed, **said)
        rows = [certified(row) for row in rows_of(turns, "a")]
        found = looked(tmp_path, lines(rows, footer_of(rows))).mismatch
        assert (found is None) == (claimed == exact)


def forged(row: Json) -> Json:
    """Certified anew, as far as a forger can; its side arrays' parts may be none."""
    try:
        return certified(row)
    except (IndexError, KeyError):
        return row


def test_side_arrays_of_a_turn_are_the_same_in_both_rows(tmp_path):
    """Where both have them."""
    rows = session()
    other = form("|u1", [11, 2, 1], bytes(22))
    rows[1] = certified(rows[1] | {"side_arrays": {"routed_experts": {"start": 0, "array": other}}})
    found = looked(tmp_path, lines(rows, footer_of(rows))).mismatch
    assert found is not None
    assert "certificate.turns[0].side_arrays.routed_experts" == found.at
    assert "row 1" in str(found)

    rows[1] = certified(rows[1] | {"side_arrays": {"routed_experts": None}})
    assert looked(tmp_path, lines(rows, footer_of(rows))).mismatch is None


def test_what_can_be_read_and_not_hashed_has_too_many_levels(tmp_path):
    """How many those are is Python's matter."""
    (row,) = rows_of(versions("v1", "v1", "v1"), "a")
    places = set()
    for levels in range(900, 1000, 4):
        text = json.dumps(row).replace('"metadata": {', '"metadata": {"deep": ' + "[" * levels + "]" * levels + ", ")
        found = looked(tmp_path, text.encode() + b"\n").mismatch
        assert found is not None
        assert 1 == found.row
        places.add(found.at)
        json.dumps(found.as_json())
    assert places == {"certificate.claims", "row", "line"}


@pytest.mark.parametrize("shared", ["once", "duplicate"])
def test_why_no_row_trains_a_turn_is_the_same_in_all_of_its_rows(tmp_path, shared):
    """One cannot train what another leaves out."""
    rows = rows_of(versions("v0", "v1", "v1"), "bc", masked={"a": "undelivered"}, shared=shared)
    for row in rows:
        row["turns"][0]["delivered"] = False
    rows[1]["turns"][0] |= {"trained": True, "masked_because": None}
    rows[1]["loss_mask"][4:7] = [1, 1, 1]
    found = looked(tmp_path, lines([certified(row) for row in rows])).mismatch
    assert found is not None
    assert (2, "turns[0].trained") == (found.row, found.at)
    assert "as in row 1" in str(found)


def versions(*names: str) -> Turns:
    """Two turns that share one, sampled by these versions."""
    turns = Turns()
    for name, base, version in zip("abc", (None, "a", "a"), names, strict=True):
        span = {"version": version, "start": 0, "end": 3, "source": "engine"}
        turns.add(name, base, policy_versions=[span])
    return turns


def test_versions_are_stale_in_all_rows_or_in_none_and_unknown_ones_always(tmp_path):
    """With a selection by staleness."""
    masked = {"a": "stale"}
    rows = rows_of(versions("v0", "v1", "v1"), "bc", masked=masked, max_staleness=0, stale_versions=["v0"])
    excluded = [{"session_id": "s", "turn_id": "a", "reason": "stale", "tokens": 3}]
    assert looked(tmp_path, lines(rows, footer_of(rows, excluded))).mismatch is None

    rows[1]["certificate"]["selection"] = rows[1]["certificate"]["selection"] | {"stale_versions": ["v1"]}
    last = rows[1]["turns"][1]
    last |= {"trained": False, "masked_because": "stale"}
    rows[1]["turns"][0] |= {"masked_because": "earlier_row"}
    rows[1]["loss_mask"] = [0] * len(rows[1]["loss_mask"])
    found = looked(tmp_path, lines([certified(row) for row in rows])).mismatch
    assert found is not None
    assert (2, "certificate.selection.stale_versions") == (found.row, found.at)

    rows = rows_of(versions("unknown", "v1", "v1"), "bc", max_staleness=0, stale_versions=[])
    found = looked(tmp_path, lines(rows)).mismatch
    assert found is not None
    assert "unknown among them" in str(found)


@pytest.mark.parametrize(
    ("excluded", "place"),
    [
        ({"reason": "boredom"}, "excluded[0].reason"),
        ({"tokens": 4}, "excluded[0].tokens"),
        ({"session_id": "t"}, "excluded[0].session_id"),
        ({"tokens": None}, "excluded[0].tokens"),
        ({"turn_id": "b"}, "excluded[0]"),
        ({"turn_id": "x"}, "excluded"),
    ],
)
def test_what_a_page_excludes_is_what_its_rows_do_not_train(tmp_path, excluded, place):
    """On the last page; each turn once."""
    rows = rows_of(versions("v0", "v1", "v1"), "bc", masked={"a": "train_false"})
    for row in rows:
        row["turns"][0]["train"] = False
    rows = [certified(row) for row in rows]
    told = {"session_id": "s", "turn_id": "a", "reason": "train_false", "tokens": 3}

    def page(*excluded: Json) -> Verdict:
        return looked(tmp_path, json.dumps({"data": rows, "next": None, "excluded": excluded}).encode())

    assert page(told).mismatch is None
    assert "excluded[1].turn_id" == getattr(page(told, told).mismatch, "at", None)
    assert place == getattr(page(told | excluded).mismatch, "at", None)


def test_rows_of_a_rollout_may_come_in_the_order_in_which_its_sessions_ended(tmp_path):
    """The second session first; the row of lowest index is still the first."""
    rows = rows_of(versions("v0", "v1", "v1"), "bc", shared="duplicate")
    other = rows_of(versions("v0", "v1", "v1"), "bc", shared="duplicate", session="t")
    for row in other:
        row["row_index"] += 2
        row["rollout_id"] = "s"
        row["row_id"] += "t"
        row["parent_row_id"] = row["parent_row_id"] and "bt"
        for turn, certified_turn in zip(row["turns"], row["certificate"]["turns"], strict=True):
            turn["turn_id"] += "t"
            turn["parent_id"] = turn["parent_id"] and "at"
            certified_turn["base_id"] = certified_turn["base_id"] and "at"
    for row in (*rows, *other):
        row |= {"n_rows": 4, "rollout_trainable_tokens": 24}
    both = [certified(row) for row in (*other, *rows)]
    assert looked(tmp_path, lines(both, footer_of(both))).mismatch is None

    both[2]["row_index"], both[3]["row_index"] = 2, 3
    found = looked(tmp_path, lines([certified(row) for row in both])).mismatch
    assert found is not None
    assert (3, "row_index") == (found.row, found.at)
