"""What a forger who computes all hashes anew forgets in a real export is noticed, and the place is named."""

import pytest

from tests.verify.corruptions import (
    Change,
    Corruptions,
    Spot,
    bridged,
    check_refused,
    last_of,
    looked,
    sampled,
    trained,
    twice,
    untrained,
)
from tests.verify.writer import Json, certified, footer_of


def undelivered(turn: Json) -> Json:
    """Nobody knows whether it was, which is no reason."""
    return turn | {"masked_because": "undelivered", "delivered": None}


def rendered(turn: Json) -> Json:
    """In full, as it says."""
    return turn | {"how": "rendered", "reason": "history_edited"}


FORGERIES = Corruptions(
    [
        Change("a_masked_token_trained", untrained, "loss_mask.{start}", 1, "loss_mask[{start}]"),
        Change("a_trained_token_masked", sampled, "loss_mask.{position}", 0, "loss_mask[{position}]"),
        Change(
            "a_reason_that_does_not_hold",
            untrained,
            "turns.{place}.masked_because",
            "stale",
            "turns[{place}].masked_because",
        ),
        Change(
            "undelivered_though_nobody_knows", untrained, "turns.{place}", undelivered, "turns[{place}].masked_because"
        ),
        Change("another_row_id", trained, "row_id", "turn_0", "row_id", names_turn=False),
        Change("truncated_by_the_model_itself", last_of(0), "truncated", True, "truncated"),
        Change("an_answer_less", last_of(0), "messages", lambda old: old[:-1], "messages["),
        Change("no_parent_row", last_of(1), "parent_row_id", None, "parent_row_id", names_turn=False),
        Change("another_reward_in_one_row", last_of(1), "reward", 0.0, "session_id", names_turn=False),
        Change(
            "another_selection_in_one_row",
            last_of(1),
            "certificate.selection.dropped",
            "exclude",
            "certificate.selection",
            names_turn=False,
        ),
        Change(
            "another_sum_in_one_row",
            last_of(2),
            "rollout_trainable_tokens",
            lambda old: old + 1,
            "rollout_trainable_tokens",
            names_turn=False,
        ),
        Change(
            "logprobs_called_exact", last_of(3), "turns.{place}.logprobs_exact", True, "turns[{place}].logprobs_exact"
        ),
        Change(
            "rows_renumbered_with_a_gap", last_of(3), "row_index", lambda old: old + 1, "row_index", names_turn=False
        ),
        Change(
            "a_status_against_the_finish_reason", trained, "turns.{place}.status", "aborted", "turns[{place}].status"
        ),
        Change(
            "a_base_that_is_not_the_turn_before",
            bridged,
            "certificate.turns.{place}.base_id",
            "turn_0",
            "certificate.turns[{place}].base_id",
        ),
        Change(
            "a_parent_that_is_not_the_turn_before", bridged, "turns.{place}.parent_id", None, "turns[{place}].parent_id"
        ),
        Change("a_render_within_a_row", bridged, "turns.{place}", rendered, "turns[{place}].how"),
        Change("tags_of_no_turn", trained, "tags.agent", "another", "tags", names_turn=False),
        Change(
            "staleness_that_nobody_asked_for",
            trained,
            "certificate.selection.stale_versions",
            ["v1"],
            "certificate.selection.stale_versions",
            names_turn=False,
        ),
        Change("another_engine_in_a_second_row", twice, "turns.{place}.rank", 7, "turns[{place}]"),
        Change(
            "other_logprobs_in_a_second_row", twice, "logprobs.{start}", -7.5, "certificate.turns[{place}].logprobs"
        ),
        Change(
            "another_prompt_in_a_second_row",
            twice,
            "token_ids.0",
            lambda old: old + 1,
            "certificate.turns[{place}].prompt",
        ),
    ]
)


def at_position(spot: Spot) -> tuple[int, Json, int]:
    return spot.at, spot.turn, spot.position


def in_row(spot: Spot) -> tuple[int, int, Json]:
    return spot.at, spot.place, spot.turn


@FORGERIES.change()
def a_token_trained_twice(rows, _footer, random):
    at, place, turn = in_row(twice(rows, random))
    turn |= {"trained": True, "masked_because": None}
    rows[at]["loss_mask"][turn["start"] : turn["end"]] = [1] * (turn["end"] - turn["start"])
    for row in rows:
        row["rollout_trainable_tokens"] += turn["end"] - turn["start"]
    return at + 1, turn["turn_id"], f"turns[{place}].trained"


@FORGERIES.change()
def a_turn_trained_against_the_harness(rows, _footer, random):
    at, place, turn = next((0, place, turn) for place, turn in enumerate(rows[0]["turns"]) if not turn["train"])
    turn |= {"trained": True, "masked_because": None}
    rows[at]["loss_mask"][turn["start"] : turn["end"]] = [1] * (turn["end"] - turn["start"])
    return at + 1, turn["turn_id"], f"turns[{place}].trained"


@FORGERIES.change()
def a_turn_that_nobody_trains(rows, _footer, random):
    turn = rows[0]["turns"][0]
    turn |= {"trained": False, "masked_because": "earlier_row"}
    rows[0]["loss_mask"][turn["start"] : turn["end"]] = [0] * (turn["end"] - turn["start"])
    return 1, turn["turn_id"], "turns[0].masked_because"


@FORGERIES.change()
def another_sum_of_trained_tokens(rows, _footer, random):
    for row in rows:
        row["rollout_trainable_tokens"] += 1
    return 1, None, "rollout_trainable_tokens"


@FORGERIES.change()
def another_parent_row(rows, _footer, random):
    rows[1]["parent_row_id"] = rows[2]["row_id"]
    return 2, None, "parent_row_id"


@FORGERIES.change()
def an_end_that_the_turn_does_not_have(rows, _footer, random):
    rows[3] |= {"ended_by": "stop", "truncated": False}
    return 4, rows[3]["row_id"], "ended_by"


@FORGERIES.change()
def an_end_against_the_finish_reason(rows, _footer, random):
    rows[3] |= {"ended_by": "stop", "truncated": False}
    rows[3]["turns"][-1]["ended_by"] = "stop"
    return 4, rows[3]["row_id"], "turns[0].ended_by"


@FORGERIES.change()
def a_call_that_was_none(rows, _footer, random):
    rows[0]["turns"][-1]["ended_by"] = rows[0]["ended_by"] = "tool_calls"
    return 1, rows[0]["row_id"], "messages["


@FORGERIES.change()
def an_abort_that_something_follows(rows, _footer, random):
    at, place, _turn = in_row(bridged(rows, random))
    before = rows[at]["turns"][place - 1]
    before |= {"finish_reason": "abort", "ended_by": "infra", "status": "aborted"}
    return at + 1, before["turn_id"], f"turns[{place - 1}].status"


@FORGERIES.change()
def a_distribution_against_the_parameters(rows, _footer, random):
    found = [(at, place, turn) for at, row in enumerate(rows) for place, turn in enumerate(row["turns"])]
    at, place, turn = next(hit for hit in found if hit[2]["distribution"] == "truncated")
    turn["distribution"] = "exact"
    return at + 1, turn["turn_id"], f"turns[{place}].distribution"


@FORGERIES.change()
def parameters_against_the_distribution(rows, _footer, random):
    found = [(at, place, turn) for at, row in enumerate(rows) for place, turn in enumerate(row["turns"])]
    at, place, turn = next(hit for hit in found if hit[2]["distribution"] == "greedy")
    turn["sampling"]["temperature"] = 0.5
    return at + 1, turn["turn_id"], f"turns[{place}].distribution"


@FORGERIES.change()
def a_render_without_a_reason(rows, _footer, random):
    at = random.randrange(len(rows))
    rows[at]["turns"][0]["reason"] = None
    return at + 1, rows[at]["turns"][0]["turn_id"], "turns[0].reason"


@FORGERIES.change()
def a_turn_cut_out(rows, _footer, random):
    at, place, turn = in_row(bridged(rows, random))
    del rows[at]["turns"][place - 1], rows[at]["policy_versions"][place - 1]
    return at + 1, turn["turn_id"] if place == 1 else rows[at]["turns"][place - 1]["turn_id"], "turns["


@FORGERIES.change()
def turns_that_overlap(rows, _footer, random):
    at, place, turn = in_row(bridged(rows, random))
    turn["start"] = rows[at]["turns"][place - 1]["end"] - 1
    return at + 1, turn["turn_id"], f"turns[{place}].start"


@FORGERIES.change()
def another_number_of_rows(rows, _footer, random):
    for row in rows:
        row["n_rows"] += 1
    return 1, None, "n_rows"


@FORGERIES.change()
def a_trained_turn_called_excluded(rows, footer, random):
    _, _, turn = in_row(trained(rows, random))
    told = {"session_id": "r", "turn_id": turn["turn_id"], "reason": "leaf", "tokens": turn["completion_tokens"]}
    footer["excluded"].append(told)
    return None, turn["turn_id"], f"footer.excluded[{len(footer['excluded']) - 1}]"


@FORGERIES.change()
def an_untrained_turn_not_called_excluded(rows, footer, random):
    gone = next(told for told in footer["excluded"] if told["reason"] == "train_false")
    footer["excluded"].remove(gone)
    return None, gone["turn_id"], "footer.excluded"


@FORGERIES.change()
def another_reason_to_exclude(rows, footer, random):
    told = next(told for told in footer["excluded"] if told["reason"] == "train_false")
    told["reason"] = "dropped"
    return None, told["turn_id"], "footer.excluded["


@pytest.mark.parametrize(("change", "export"), FORGERIES)
def test_a_forgery_is_refused_and_its_place_named(exports, tmp_path, change, export):
    """Whatever else must hold."""
    assert len(FORGERIES) >= 30
    check_refused(tmp_path, exports[export], change, forged=True)


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
