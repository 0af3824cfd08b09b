"""What an accident changes in a real export is noticed, and the place is named: its hashes are those of what was there before."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.verify.corruptions import Change, Corruptions, Spot, check_refused, looked, prompted, sampled, trained
from tests.verify.writer import Json, f32

NO_HASH = "0" * 64


def next_float(number: float) -> float:
    """The float32 beside it."""
    return f32(number * (1 + 2**-23)) if number else f32(-(2**-126))


ACCIDENTS = Corruptions(
    [
        Change("a_sampled_id", sampled, "token_ids.{position}", lambda old: old + 1, "token_ids[{start}:{end}]"),
        Change("an_id_of_a_prompt", prompted, "token_ids.{position}", lambda old: old ^ 1, "token_ids["),
        Change("an_id_below_zero", sampled, "token_ids.{position}", -1, "token_ids[{position}]", names_turn=False),
        Change(
            "an_id_of_33_bits", prompted, "token_ids.{position}", 1 << 32, "token_ids[{position}]", names_turn=False
        ),
        Change(
            "an_id_that_is_a_float", sampled, "token_ids.{position}", float, "token_ids[{position}]", names_turn=False
        ),
        Change("a_mask_taken_away", sampled, "loss_mask.{position}", 0, "loss_mask[{position}]"),
        Change("a_mask_on_a_prompt", prompted, "loss_mask.{position}", 1, "loss_mask[{position}]"),
        Change("a_mask_of_two", sampled, "loss_mask.{position}", 2, "loss_mask[{position}]"),
        Change("a_mask_that_is_true", sampled, "loss_mask.{position}", True, "loss_mask[{position}]", names_turn=False),
        Change("one_bit_of_a_logprob", sampled, "logprobs.{position}", next_float, "logprobs[{start}:{end}]"),
        Change("a_logprob_above_zero", sampled, "logprobs.{position}", 0.5, "logprobs[{position}]"),
        Change("a_logprob_of_64_bits", sampled, "logprobs.{position}", -0.1, "logprobs[{position}]", names_turn=False),
        Change("a_logprob_of_what_nobody_sampled", prompted, "logprobs.{position}", -0.5, "logprobs[{position}]"),
        Change(
            "a_span_that_ends_early",
            trained,
            "turns.{place}.policy_versions.-1.end",
            lambda old: old - 1,
            "turns[{place}].policy_versions",
        ),
        Change(
            "a_span_that_begins_late",
            trained,
            "turns.{place}.policy_versions.0.start",
            1,
            "turns[{place}].policy_versions[0].start",
        ),
        Change(
            "another_version_in_a_turn", trained, "turns.{place}.policy_versions.0.version", "v9", "policy_versions["
        ),
        Change(
            "a_turn_that_begins_later",
            trained,
            "turns.{place}.start",
            lambda old: old + 1,
            "turns[{place}].prompt_tokens",
        ),
        Change("another_prompt_hash", trained, "certificate.turns.{place}.prompt", NO_HASH, "token_ids["),
        Change("another_mask_hash", trained, "certificate.turns.{place}.mask", NO_HASH, "loss_mask["),
        Change(
            "another_hash_of_an_array",
            trained,
            "certificate.arrays.logprobs",
            NO_HASH,
            "certificate.arrays.logprobs",
            names_turn=False,
        ),
        Change(
            "another_hash_of_the_claims", trained, "certificate.claims", NO_HASH, "certificate.claims", names_turn=False
        ),
        Change("another_hash_of_the_row", trained, "certificate.row", NO_HASH, "certificate.row", names_turn=False),
        Change("another_renderer", trained, "certificate.renderer.version", "0", "certificate.row", names_turn=False),
        Change("another_reward", trained, "reward", 0.5, "certificate.claims", names_turn=False),
        Change(
            "another_word_of_a_message",
            trained,
            "messages.0.content",
            lambda old: old + "!",
            "certificate.claims",
            names_turn=False,
        ),
        Change("a_field_more", trained, "advantage", 1.0, "certificate.claims", names_turn=False),
        Change(
            "a_difference_more",
            trained,
            "turns.{place}.differences.content_whitespace",
            {"messages": 9, "tokens": 9},
            "certificate.turns[{place}].differences",
        ),
    ]
)


def at_position(spot: Spot) -> tuple[int, Json, int]:
    return spot.at, spot.turn, spot.position


def in_row(spot: Spot) -> tuple[int, int, Json]:
    return spot.at, spot.place, spot.turn


@ACCIDENTS.change()
def two_ids_swapped(rows, _footer, random):
    at, turn, _ = at_position(sampled(rows, random))
    ids, start = rows[at]["token_ids"], turn["start"]
    ids[start], ids[start + 1] = ids[start + 1], ids[start] + (ids[start] == ids[start + 1])
    return at + 1, turn["turn_id"], f"token_ids[{start}:"


@ACCIDENTS.change()
def an_id_left_out(rows, _footer, random):
    at, _, position = at_position(sampled(rows, random))
    del rows[at]["token_ids"][position]
    return at + 1, None, "loss_mask"


@ACCIDENTS.change()
def another_version_in_turn_and_row(rows, _footer, random):
    at, place, turn = in_row(trained(rows, random))
    for span in (turn["policy_versions"][0], rows[at]["policy_versions"][place]):
        span["version"] = "v9"
    return at + 1, turn["turn_id"], f"turns[{place}].policy_versions"


@ACCIDENTS.change()
def a_field_less(rows, _footer, random):
    del rows[1]["tags"]
    return 2, None, "tags"


@ACCIDENTS.change()
def a_row_dropped(rows, _footer, _random):
    del rows[1]
    return 2, None, "row_index"


@ACCIDENTS.change()
def the_last_row_dropped(rows, _footer, _random):
    del rows[-1]
    return 1, None, "n_rows"


@ACCIDENTS.change()
def a_row_doubled(rows, _footer, _random):
    rows.insert(1, rows[0])
    return 2, None, "row_index"


@ACCIDENTS.change()
def rows_swapped(rows, _footer, _random):
    rows[1], rows[2] = rows[2], rows[1]
    return 2, None, "row_index"


@ACCIDENTS.change()
def another_count_of_rows(rows, footer, _random):
    footer["rows"] += 1
    return None, None, "footer.rows"


@ACCIDENTS.change()
def another_chain(rows, footer, _random):
    footer["chain"] = "0" * 64
    return None, None, "footer.chain"


@ACCIDENTS.change()
def an_exclusion_of_another_size(rows, footer, _random):
    aborted = next(told for told in footer["excluded"] if told["reason"] == "aborted")
    aborted["tokens"] += 1
    return None, None, "footer.chain"


@ACCIDENTS.change("base64")
def one_bit_of_base64(rows, _footer, random):
    at, turn, position = at_position(sampled(rows, random))
    text = list(rows[at]["token_ids"]["base64"])
    text[position * 4 * 8 // 6] = "A" if text[position * 4 * 8 // 6] != "A" else "B"
    rows[at]["token_ids"]["base64"] = "".join(text)
    return at + 1, turn["turn_id"], "token_ids["


@ACCIDENTS.change("base64")
def another_shape(rows, _footer, random):
    at, _, _ = in_row(trained(rows, random))
    rows[at]["logprobs"]["shape"][0] -= 1
    return at + 1, None, "logprobs"


@pytest.mark.parametrize(("change", "export"), ACCIDENTS)
def test_an_accident_is_refused_and_its_place_named(exports, tmp_path, change, export):
    """Of every kind, in every part of a file."""
    assert len(ACCIDENTS) >= 30
    check_refused(tmp_path, exports[export], change, forged=False)


NEW = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 1 << 33),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
)


def leaves_of(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values within a value that hold no others."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [leaf for name, held in items for leaf in leaves_of(held, (*path, name))]
    return [path]


@pytest.mark.parametrize("export", ["once", "fresh_split"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(line=st.integers(0, 99), name=st.integers(0, 99), leaf=st.integers(0, 9999), new=NEW)
def test_any_change_of_any_value_is_noticed(exports, tmp_path, export, line, name, leaf, new):
    """Whichever it is, and whatever comes in its place."""
    values = [json.loads(text) for text in exports[export].content.splitlines()]
    holder = values[line % len(values)]
    field = list(holder)[name % len(holder)]
    leaves = leaves_of(holder[field], (field,))
    *way, last = leaves[leaf % len(leaves)]
    for step in way:
        holder = holder[step]
    assume(json.dumps(new) != json.dumps(holder[last]))
    assume(not (type(new) in (int, float) and type(holder[last]) is float and new == holder[last]))  # in other letters
    holder[last] = new
    verdict = looked(tmp_path / "rows", values, None)

    assert verdict.mismatch is not None, (way, last, new)
