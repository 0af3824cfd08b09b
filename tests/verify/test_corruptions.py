"""Whatever is changed in a real export is noticed, and the place is named: by accident, or by a clumsy forger.

An accident leaves the hashes as they were. The forger computes all of them anew, but forgets what else must hold.
"""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.verify.verdict import Verdict, verify
from tests.verify.writer import Json, certified, f32, footer_of, lines

Place = tuple[int | None, str | None, str]
"""The number of the row, the turn's id, and the beginning of the position: what must be named."""
Corruption = Callable[[list[Json], Json, Random], Place]
CORRUPTIONS: list[Any] = []


def corruption(export: str = "once", *, forged: bool = False) -> Callable[[Corruption], Corruption]:
    """A change of the rows and the footer of an export; if `forged`, all hashes are then computed anew."""

    def known(change: Corruption) -> Corruption:
        CORRUPTIONS.append(pytest.param(change, export, forged, id=change.__name__))
        return change

    return known


def looked(file: Path, rows: list[Json], footer: Json | None) -> Verdict:
    """What is said of these rows as a file."""
    file.write_bytes(lines(rows, footer))
    return verify(file, strict=footer is not None)


@pytest.mark.parametrize("seed", [7, 20261130])
@pytest.mark.parametrize(("change", "export", "forged"), CORRUPTIONS)
def test_a_corruption_is_refused_and_its_place_named(exports, tmp_path, change, export, forged, seed):
    """The row, the turn where there is one, and the position."""
    rows, footer = exports[export].rows, exports[export].footer
    row, turn_id, position = change(rows, footer, Random(seed))
    if forged:
        rows = [certified(row) for row in rows]
        footer = footer_of(rows, footer["excluded"])
    found = looked(tmp_path / "rows", rows, footer).mismatch

    assert found is not None
    assert (row, turn_id) == (found.row, found.turn_id), str(found)
    assert found.at.startswith(position), str(found)
    if row is not None:
        assert found.row_id == rows[row - 1]["row_id"]
        assert f"row {row} ({found.row_id})" in str(found)


def test_there_are_more_than_thirty():
    """Of both kinds."""
    forged = [param for param in CORRUPTIONS if param.values[2]]
    assert len(CORRUPTIONS) - len(forged) >= 30
    assert len(forged) >= 30


# Where to strike.


def turn_of(rows: list[Json], random: Random, *, trained: bool = True) -> tuple[int, int, Json]:
    """A row, the place of one of its turns, and the turn."""
    found = [
        (at, place, turn)
        for at, row in enumerate(rows)
        for place, turn in enumerate(row["turns"])
        if turn["trained"] is trained
    ]
    return random.choice(found)


def sampled(rows: list[Json], random: Random) -> tuple[int, Json, int]:
    """A row, one of its trained turns, and a position that the turn sampled."""
    at, _, turn = turn_of(rows, random)
    return at, turn, random.randrange(turn["start"], turn["end"])


def prompted(rows: list[Json], random: Random) -> tuple[int, Json, int]:
    """A row, one of its turns, and a position of what its prompt adds."""
    at, place, turn = turn_of(rows, random)
    before = rows[at]["turns"][place - 1]["end"] if place else 0
    return at, turn, random.randrange(before, turn["start"])


def held_twice(rows: list[Json]) -> tuple[int, int, Json]:
    """The second row that holds a turn, the place of the turn in it, and the turn."""
    seen = set()
    for at, row in enumerate(rows):
        for place, turn in enumerate(row["turns"]):
            if turn["turn_id"] in seen:
                return at, place, turn
            seen.add(turn["turn_id"])
    raise AssertionError("no turn is in two rows")


def bridged(rows: list[Json], random: Random) -> tuple[int, int, Json]:
    """A row, the place of one of its bridged turns, and the turn."""
    found = [(at, place, turn) for at, row in enumerate(rows) for place, turn in enumerate(row["turns"]) if place]
    return random.choice(found)


# Accidents: the hashes are those of what was there before.


@corruption()
def a_sampled_id(rows, _footer, random):
    at, turn, position = sampled(rows, random)
    rows[at]["token_ids"][position] += 1
    return at + 1, turn["turn_id"], f"token_ids[{turn['start']}:{turn['end']}]"


@corruption()
def an_id_of_a_prompt(rows, _footer, random):
    at, turn, position = prompted(rows, random)
    rows[at]["token_ids"][position] ^= 1
    return at + 1, turn["turn_id"], "token_ids["


@corruption()
def two_ids_swapped(rows, _footer, random):
    at, turn, _ = sampled(rows, random)
    ids, start = rows[at]["token_ids"], turn["start"]
    ids[start], ids[start + 1] = ids[start + 1], ids[start] + (ids[start] == ids[start + 1])
    return at + 1, turn["turn_id"], f"token_ids[{start}:"


@corruption()
def an_id_below_zero(rows, _footer, random):
    at, _, position = sampled(rows, random)
    rows[at]["token_ids"][position] = -1
    return at + 1, None, f"token_ids[{position}]"


@corruption()
def an_id_of_33_bits(rows, _footer, random):
    at, _, position = prompted(rows, random)
    rows[at]["token_ids"][position] = 1 << 32
    return at + 1, None, f"token_ids[{position}]"


@corruption()
def an_id_that_is_a_float(rows, _footer, random):
    at, _, position = sampled(rows, random)
    rows[at]["token_ids"][position] += 0.0
    return at + 1, None, f"token_ids[{position}]"


@corruption()
def an_id_left_out(rows, _footer, random):
    at, _, position = sampled(rows, random)
    del rows[at]["token_ids"][position]
    return at + 1, None, "loss_mask"


@corruption()
def a_mask_taken_away(rows, _footer, random):
    at, turn, position = sampled(rows, random)
    rows[at]["loss_mask"][position] = 0
    return at + 1, turn["turn_id"], f"loss_mask[{position}]"


@corruption()
def a_mask_on_a_prompt(rows, _footer, random):
    at, turn, position = prompted(rows, random)
    rows[at]["loss_mask"][position] = 1
    return at + 1, turn["turn_id"], f"loss_mask[{position}]"


@corruption()
def a_mask_of_two(rows, _footer, random):
    at, turn, position = sampled(rows, random)
    rows[at]["loss_mask"][position] = 2
    return at + 1, turn["turn_id"], f"loss_mask[{position}]"


@corruption()
def a_mask_that_is_true(rows, _footer, random):
    at, _, position = sampled(rows, random)
    rows[at]["loss_mask"][position] = True
    return at + 1, None, f"loss_mask[{position}]"


@corruption()
def one_bit_of_a_logprob(rows, _footer, random):
    at, turn, position = sampled(rows, random)
    found = rows[at]["logprobs"][position]
    rows[at]["logprobs"][position] = f32(found * (1 + 2**-23)) if found else f32(-(2**-126))
    return at + 1, turn["turn_id"], f"logprobs[{turn['start']}:{turn['end']}]"


@corruption()
def a_logprob_above_zero(rows, _footer, random):
    at, turn, position = sampled(rows, random)
    rows[at]["logprobs"][position] = 0.5
    return at + 1, turn["turn_id"], f"logprobs[{position}]"


@corruption()
def a_logprob_of_64_bits(rows, _footer, random):
    at, _, position = sampled(rows, random)
    rows[at]["logprobs"][position] = -0.1
    return at + 1, None, f"logprobs[{position}]"


@corruption()
def a_logprob_of_what_nobody_sampled(rows, _footer, random):
    at, turn, position = prompted(rows, random)
    rows[at]["logprobs"][position] = -0.5
    return at + 1, turn["turn_id"], f"logprobs[{position}]"


@corruption()
def a_span_that_ends_early(rows, _footer, random):
    at, place, turn = turn_of(rows, random)
    turn["policy_versions"][-1]["end"] -= 1
    return at + 1, turn["turn_id"], f"turns[{place}].policy_versions"


@corruption()
def a_span_that_begins_late(rows, _footer, random):
    at, place, turn = turn_of(rows, random)
    turn["policy_versions"][0]["start"] = 1
    return at + 1, turn["turn_id"], f"turns[{place}].policy_versions[0].start"


@corruption()
def another_version_in_a_turn(rows, _footer, random):
    at, _, turn = turn_of(rows, random)
    turn["policy_versions"][0]["version"] = "v9"
    return at + 1, turn["turn_id"], "policy_versions["


@corruption()
def another_version_in_turn_and_row(rows, _footer, random):
    at, place, turn = turn_of(rows, random)
    for span in (turn["policy_versions"][0], rows[at]["policy_versions"][place]):
        span["version"] = "v9"
    return at + 1, turn["turn_id"], f"turns[{place}].policy_versions"


@corruption()
def a_turn_that_begins_later(rows, _footer, random):
    at, place, turn = turn_of(rows, random)
    turn["start"] += 1
    return at + 1, turn["turn_id"], f"turns[{place}].prompt_tokens"


@corruption()
def another_prompt_hash(rows, _footer, random):
    at, place, turn = turn_of(rows, random)
    rows[at]["certificate"]["turns"][place]["prompt"] = "0" * 64
    return at + 1, turn["turn_id"], "token_ids["


@corruption()
def another_mask_hash(rows, _footer, random):
    at, place, turn = turn_of(rows, random)
    rows[at]["certificate"]["turns"][place]["mask"] = "0" * 64
    return at + 1, turn["turn_id"], "loss_mask["


@corruption()
def another_hash_of_an_array(rows, _footer, random):
    at, _, _ = turn_of(rows, random)
    rows[at]["certificate"]["arrays"]["logprobs"] = "0" * 64
    return at + 1, None, "certificate.arrays.logprobs"


@corruption()
def another_hash_of_the_claims(rows, _footer, random):
    at, _, _ = turn_of(rows, random)
    rows[at]["certificate"]["claims"] = "0" * 64
    return at + 1, None, "certificate.claims"


@corruption()
def another_hash_of_the_row(rows, _footer, random):
    at, _, _ = turn_of(rows, random)
    rows[at]["certificate"]["row"] = "0" * 64
    return at + 1, None, "certificate.row"


@corruption()
def another_renderer(rows, _footer, random):
    at, _, _ = turn_of(rows, random)
    rows[at]["certificate"]["renderer"]["version"] = "0"
    return at + 1, None, "certificate.row"


@corruption()
def another_reward(rows, _footer, random):
    rows[0]["reward"] = 0.5
    return 1, None, "certificate.claims"


@corruption()
def another_word_of_a_message(rows, _footer, random):
    at, _, _ = turn_of(rows, random)
    rows[at]["messages"][0]["content"] += "!"
    return at + 1, None, "certificate.claims"


@corruption()
def a_field_more(rows, _footer, random):
    at, _, _ = turn_of(rows, random)
    rows[at]["advantage"] = 1.0
    return at + 1, None, "certificate.claims"


@corruption()
def a_field_less(rows, _footer, random):
    del rows[1]["tags"]
    return 2, None, "tags"


@corruption()
def a_difference_less(rows, _footer, random):
    at, place, turn = turn_of(rows, random)
    turn["differences"]["content_whitespace"] = {"messages": 9, "tokens": 9}
    return at + 1, turn["turn_id"], f"certificate.turns[{place}].differences"


@corruption()
def a_row_dropped(rows, _footer, _random):
    del rows[1]
    return 2, None, "row_index"


@corruption()
def the_last_row_dropped(rows, _footer, _random):
    del rows[-1]
    return 1, None, "n_rows"


@corruption()
def a_row_doubled(rows, _footer, _random):
    rows.insert(1, rows[0])
    return 2, None, "row_index"


@corruption()
def rows_swapped(rows, _footer, _random):
    rows[1], rows[2] = rows[2], rows[1]
    return 2, None, "row_index"


@corruption()
def another_count_of_rows(rows, footer, _random):
    footer["rows"] += 1
    return None, None, "footer.rows"


@corruption()
def another_chain(rows, footer, _random):
    footer["chain"] = "0" * 64
    return None, None, "footer.chain"


@corruption()
def an_exclusion_of_another_size(rows, footer, _random):
    aborted = next(told for told in footer["excluded"] if told["reason"] == "aborted")
    aborted["tokens"] += 1
    return None, None, "footer.chain"


@corruption("base64")
def one_bit_of_base64(rows, _footer, random):
    at, turn, position = sampled(rows, random)
    text = list(rows[at]["token_ids"]["base64"])
    text[position * 4 * 8 // 6] = "A" if text[position * 4 * 8 // 6] != "A" else "B"
    rows[at]["token_ids"]["base64"] = "".join(text)
    return at + 1, turn["turn_id"], "token_ids["


@corruption("base64")
def another_shape(rows, _footer, random):
    at, _, _ = turn_of(rows, random)
    rows[at]["logprobs"]["shape"][0] -= 1
    return at + 1, None, "logprobs"


# Forgeries: all hashes are right.


@corruption(forged=True)
def a_token_trained_twice(rows, _footer, random):
    at, place, turn = held_twice(rows)
    turn |= {"trained": True, "masked_because": None}
    rows[at]["loss_mask"][turn["start"] : turn["end"]] = [1] * (turn["end"] - turn["start"])
    for row in rows:
        row["rollout_trainable_tokens"] += turn["end"] - turn["start"]
    return at + 1, turn["turn_id"], f"turns[{place}].trained"


@corruption(forged=True)
def a_masked_token_trained(rows, _footer, random):
    at, _, turn = turn_of(rows, random, trained=False)
    rows[at]["loss_mask"][turn["start"]] = 1
    return at + 1, turn["turn_id"], f"loss_mask[{turn['start']}]"


@corruption(forged=True)
def a_trained_token_masked(rows, _footer, random):
    at, turn, position = sampled(rows, random)
    rows[at]["loss_mask"][position] = 0
    return at + 1, turn["turn_id"], f"loss_mask[{position}]"


@corruption(forged=True)
def a_turn_trained_against_the_harness(rows, _footer, random):
    at, place, turn = next((0, place, turn) for place, turn in enumerate(rows[0]["turns"]) if not turn["train"])
    turn |= {"trained": True, "masked_because": None}
    rows[at]["loss_mask"][turn["start"] : turn["end"]] = [1] * (turn["end"] - turn["start"])
    return at + 1, turn["turn_id"], f"turns[{place}].trained"


@corruption(forged=True)
def a_reason_that_does_not_hold(rows, _footer, random):
    turn = next(turn for turn in rows[0]["turns"] if turn["masked_because"] == "train_false")
    turn["masked_because"] = "stale"
    return 1, turn["turn_id"], "turns[1].masked_because"


@corruption(forged=True)
def a_turn_that_nobody_trains(rows, _footer, random):
    turn = rows[0]["turns"][0]
    turn |= {"trained": False, "masked_because": "earlier_row"}
    rows[0]["loss_mask"][turn["start"] : turn["end"]] = [0] * (turn["end"] - turn["start"])
    return 1, turn["turn_id"], "turns[0].masked_because"


@corruption(forged=True)
def another_sum_of_trained_tokens(rows, _footer, random):
    for row in rows:
        row["rollout_trainable_tokens"] += 1
    return 1, None, "rollout_trainable_tokens"


@corruption(forged=True)
def another_sum_in_one_row(rows, _footer, random):
    rows[2]["rollout_trainable_tokens"] += 1
    return 3, None, "rollout_trainable_tokens"


@corruption(forged=True)
def another_parent_row(rows, _footer, random):
    rows[1]["parent_row_id"] = rows[2]["row_id"]
    return 2, None, "parent_row_id"


@corruption(forged=True)
def no_parent_row(rows, _footer, random):
    rows[1]["parent_row_id"] = None
    return 2, None, "parent_row_id"


@corruption(forged=True)
def another_row_id(rows, _footer, random):
    rows[2]["row_id"] = "turn_0"
    return 3, None, "row_id"


@corruption(forged=True)
def truncated_by_the_model_itself(rows, _footer, random):
    rows[0]["truncated"] = True
    return 1, rows[0]["row_id"], "truncated"


@corruption(forged=True)
def an_end_that_the_turn_does_not_have(rows, _footer, random):
    rows[3] |= {"ended_by": "stop", "truncated": False}
    return 4, rows[3]["row_id"], "ended_by"


@corruption(forged=True)
def an_end_against_the_finish_reason(rows, _footer, random):
    rows[3] |= {"ended_by": "stop", "truncated": False}
    rows[3]["turns"][-1]["ended_by"] = "stop"
    return 4, rows[3]["row_id"], "turns[0].ended_by"


@corruption(forged=True)
def a_call_that_was_none(rows, _footer, random):
    rows[0]["turns"][-1]["ended_by"] = rows[0]["ended_by"] = "tool_calls"
    return 1, rows[0]["row_id"], "messages["


@corruption(forged=True)
def an_answer_less(rows, _footer, random):
    rows[0]["messages"].pop()
    return 1, rows[0]["row_id"], "messages["


@corruption(forged=True)
def an_abort_that_something_follows(rows, _footer, random):
    at, place, _turn = bridged(rows, random)
    before = rows[at]["turns"][place - 1]
    before |= {"finish_reason": "abort", "ended_by": "infra", "status": "aborted"}
    return at + 1, before["turn_id"], f"turns[{place - 1}].status"


@corruption(forged=True)
def a_status_against_the_finish_reason(rows, _footer, random):
    at, place, turn = turn_of(rows, random)
    turn["status"] = "aborted"
    return at + 1, turn["turn_id"], f"turns[{place}].status"


@corruption(forged=True)
def a_distribution_against_the_parameters(rows, _footer, random):
    found = [(at, place, turn) for at, row in enumerate(rows) for place, turn in enumerate(row["turns"])]
    at, place, turn = next(hit for hit in found if hit[2]["distribution"] == "truncated")
    turn["distribution"] = "exact"
    return at + 1, turn["turn_id"], f"turns[{place}].distribution"


@corruption(forged=True)
def parameters_against_the_distribution(rows, _footer, random):
    found = [(at, place, turn) for at, row in enumerate(rows) for place, turn in enumerate(row["turns"])]
    at, place, turn = next(hit for hit in found if hit[2]["distribution"] == "greedy")
    turn["sampling"]["temperature"] = 0.5
    return at + 1, turn["turn_id"], f"turns[{place}].distribution"


@corruption(forged=True)
def logprobs_called_exact(rows, _footer, random):
    at, place, turn = next((3, place, turn) for place, turn in enumerate(rows[3]["turns"]))
    turn["logprobs_exact"] = True
    return at + 1, turn["turn_id"], f"turns[{place}].logprobs_exact"


@corruption(forged=True)
def a_base_that_is_not_the_turn_before(rows, _footer, random):
    at, place, turn = bridged(rows, random)
    rows[at]["certificate"]["turns"][place]["base_id"] = rows[3]["row_id"]
    return at + 1, turn["turn_id"], f"certificate.turns[{place}].base_id"


@corruption(forged=True)
def a_parent_that_is_not_the_turn_before(rows, _footer, random):
    at, place, turn = bridged(rows, random)
    turn["parent_id"] = None
    return at + 1, turn["turn_id"], f"turns[{place}].parent_id"


@corruption(forged=True)
def a_render_within_a_row(rows, _footer, random):
    at, place, turn = bridged(rows, random)
    turn |= {"how": "rendered", "reason": "history_edited"}
    return at + 1, turn["turn_id"], f"turns[{place}].how"


@corruption(forged=True)
def a_render_without_a_reason(rows, _footer, random):
    at = random.randrange(len(rows))
    rows[at]["turns"][0]["reason"] = None
    return at + 1, rows[at]["turns"][0]["turn_id"], "turns[0].reason"


@corruption(forged=True)
def a_turn_cut_out(rows, _footer, random):
    at, place, turn = bridged(rows, random)
    del rows[at]["turns"][place - 1], rows[at]["policy_versions"][place - 1]
    return at + 1, turn["turn_id"] if place == 1 else rows[at]["turns"][place - 1]["turn_id"], "turns["


@corruption(forged=True)
def turns_that_overlap(rows, _footer, random):
    at, place, turn = bridged(rows, random)
    turn["start"] = rows[at]["turns"][place - 1]["end"] - 1
    return at + 1, turn["turn_id"], f"turns[{place}].start"


@corruption(forged=True)
def other_logprobs_in_a_second_row(rows, _footer, random):
    at, place, turn = held_twice(rows)
    rows[at]["logprobs"][turn["start"]] = -7.5
    return at + 1, turn["turn_id"], f"certificate.turns[{place}].logprobs"


@corruption(forged=True)
def another_prompt_in_a_second_row(rows, _footer, random):
    at, place, turn = held_twice(rows)
    rows[at]["token_ids"][0] += 1
    return at + 1, turn["turn_id"], f"certificate.turns[{place}].prompt"


@corruption(forged=True)
def another_engine_in_a_second_row(rows, _footer, random):
    at, place, turn = held_twice(rows)
    turn["rank"] = 7
    return at + 1, turn["turn_id"], f"turns[{place}]"


@corruption(forged=True)
def tags_of_no_turn(rows, _footer, random):
    rows[1]["tags"]["agent"] = "another"
    return 2, None, "tags"


@corruption(forged=True)
def another_reward_in_one_row(rows, _footer, random):
    rows[1]["reward"] = 0.0
    return 2, None, "session_id"


@corruption(forged=True)
def another_selection_in_one_row(rows, _footer, random):
    rows[1]["certificate"]["selection"]["dropped"] = "exclude"
    return 2, None, "certificate.selection"


@corruption(forged=True)
def another_number_of_rows(rows, _footer, random):
    for row in rows:
        row["n_rows"] += 1
    return 1, None, "n_rows"


@corruption(forged=True)
def rows_renumbered_with_a_gap(rows, _footer, random):
    rows[3]["row_index"] += 1
    return 4, None, "row_index"


@corruption(forged=True)
def a_trained_turn_called_excluded(rows, footer, random):
    _, _, turn = turn_of(rows, random)
    told = {"session_id": "r", "turn_id": turn["turn_id"], "reason": "leaf", "tokens": turn["completion_tokens"]}
    footer["excluded"].append(told)
    return None, turn["turn_id"], f"footer.excluded[{len(footer['excluded']) - 1}]"


@corruption(forged=True)
def an_untrained_turn_not_called_excluded(rows, footer, random):
    gone = next(told for told in footer["excluded"] if told["reason"] == "train_false")
    footer["excluded"].remove(gone)
    return None, gone["turn_id"], "footer.excluded"


@corruption(forged=True)
def another_reason_to_exclude(rows, footer, random):
    told = next(told for told in footer["excluded"] if told["reason"] == "train_false")
    told["reason"] = "dropped"
    return None, told["turn_id"], "footer.excluded["


@corruption("split", forged=True)
def weights_that_do_not_add_up(rows, _footer, random):
    _at, _place, turn = held_twice(rows)
    for row in rows[:2]:
        row["loss_weights"][turn["start"] : turn["end"]] = [f32(1 / 3)] * (turn["end"] - turn["start"])
    return 1, turn["turn_id"], f"loss_weights[{turn['start']}]"


@corruption("split", forged=True)
def another_weight_in_one_row(rows, _footer, random):
    at, _place, turn = held_twice(rows)
    rows[at]["loss_weights"][turn["start"] : turn["end"]] = [1.0] * (turn["end"] - turn["start"])
    return at + 1, turn["turn_id"], f"loss_weights[{turn['start']}]"


@corruption("split", forged=True)
def a_weight_that_is_no_part(rows, _footer, random):
    at, turn, _ = sampled(rows, random)
    rows[at]["loss_weights"][turn["start"] : turn["end"]] = [0.75] * (turn["end"] - turn["start"])
    return at + 1, turn["turn_id"], f"loss_weights[{turn['start']}]"


@corruption("split", forged=True)
def another_weight_within_a_turn(rows, _footer, random):
    at, turn, _ = sampled(rows, random)
    rows[at]["loss_weights"][turn["end"] - 1] = f32(1 / 7)
    return at + 1, turn["turn_id"], f"loss_weights[{turn['end'] - 1}]"


@corruption("split", forged=True)
def a_weight_on_a_prompt(rows, _footer, random):
    at, turn, position = prompted(rows, random)
    rows[at]["loss_weights"][position] = 1.0
    return at + 1, turn["turn_id"], f"loss_weights[{position}]"


@corruption("split", forged=True)
def weights_left_out(rows, _footer, random):
    del rows[2]["loss_weights"]
    return 3, None, "loss_weights"


@corruption("duplicate", forged=True)
def a_duplicate_that_is_not_trained(rows, _footer, random):
    at, place, turn = held_twice(rows)
    turn |= {"trained": False, "masked_because": "earlier_row"}
    rows[at]["loss_mask"][turn["start"] : turn["end"]] = [0] * (turn["end"] - turn["start"])
    return at + 1, turn["turn_id"], f"turns[{place}].masked_because"


@corruption("fresh", forged=True)
def a_stale_turn_trained(rows, _footer, random):
    at, place, turn = next(
        (at, place, turn)
        for at, row in enumerate(rows)
        for place, turn in enumerate(row["turns"])
        if turn["masked_because"] == "stale"
    )
    turn |= {"trained": True, "masked_because": None}
    return at + 1, turn["turn_id"], f"turns[{place}].trained"


@corruption(forged=True)
def staleness_that_nobody_asked_for(rows, _footer, random):
    at = random.randrange(len(rows))
    rows[at]["certificate"]["selection"]["stale_versions"] = ["v1"]
    return at + 1, None, "certificate.selection.stale_versions"


@corruption("latest", forged=True)
def a_distribution_that_was_not_selected(rows, _footer, random):
    chosen = rows[0]["certificate"]["selection"]
    chosen["distribution"] = ["greedy"]
    return 1, rows[0]["turns"][0]["turn_id"], "turns[0].trained"


@corruption("aborted", forged=True)
def an_aborted_turn_that_was_not_selected(rows, _footer, random):
    for row in rows:
        row["certificate"]["selection"]["include"] = []
    return 2, rows[1]["row_id"], "turns["


@corruption(forged=True)
def more_leaves_than_the_latest(rows, _footer, random):
    for row in rows:
        row["certificate"]["selection"]["leaves"] = "latest"
    return 2, None, "certificate.selection.leaves"


def test_rows_of_two_sessions_that_change_places_break_the_chain(exports, tmp_path):
    """Nothing else says in which order sessions come."""
    rows = exports["latest"].rows
    other = [row | {"session_id": "q", "rollout_id": "q"} for row in exports["latest"].rows]
    for turn in other[0]["turns"]:
        turn["turn_id"] += "q"
    other[0]["row_id"] += "q"
    other[0]["turns"][-1]["parent_id"] = other[0]["turns"][-2]["turn_id"]
    for place, turn in enumerate(other[0]["turns"][1:]):
        turn["parent_id"] = other[0]["turns"][place]["turn_id"]
        other[0]["certificate"]["turns"][place + 1]["base_id"] = turn["parent_id"]
    both = [certified(row) for row in [*rows, *other]]
    assert looked(tmp_path / "rows", both, footer_of(both)).mismatch is None

    found = looked(tmp_path / "rows", both[::-1], footer_of(both)).mismatch
    assert found is not None
    assert "footer.chain" == found.at


def leaves_of(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values within a value that hold no others."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [leaf for name, held in items for leaf in leaves_of(held, (*path, name))]
    return [path]


@pytest.mark.parametrize("export", ["once", "fresh_split"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_any_change_of_any_value_is_noticed(exports, tmp_path, export, data):
    """Whichever it is, and whatever comes in its place."""
    values = [json.loads(line) for line in exports[export].content.splitlines()]
    at = data.draw(st.integers(0, len(values) - 1))
    *way, last = data.draw(st.sampled_from(leaves_of(values[at])))
    holder = values[at]
    for name in way:
        holder = holder[name]
    new = data.draw(NEW)
    if json.dumps(new) == json.dumps(holder[last]) or (type(new) is float and new == holder[last]):
        return  # the same number in other letters
    holder[last] = new
    verdict = looked(tmp_path / "rows", values, None)

    assert verdict.mismatch is not None, (way, last, new)


NEW = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 1 << 33),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
)
