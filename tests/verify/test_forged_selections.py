"""What a forger forgets of the rows of other selections, their weights above all, is noticed too."""

import pytest

from tests.verify.corruptions import Corruptions, Spot, check_refused, prompted, sampled, twice
from tests.verify.writer import Json, f32

FORGERIES = Corruptions([])


def at_position(spot: Spot) -> tuple[int, Json, int]:
    return spot.at, spot.turn, spot.position


def in_row(spot: Spot) -> tuple[int, int, Json]:
    return spot.at, spot.place, spot.turn


@FORGERIES.change("split")
def weights_that_do_not_add_up(rows, _footer, random):
    _at, _place, turn = in_row(twice(rows, random))
    for row in rows[:2]:
        row["loss_weights"][turn["start"] : turn["end"]] = [f32(1 / 3)] * (turn["end"] - turn["start"])
    return 1, turn["turn_id"], f"loss_weights[{turn['start']}]"


@FORGERIES.change("split")
def another_weight_in_one_row(rows, _footer, random):
    at, _place, turn = in_row(twice(rows, random))
    rows[at]["loss_weights"][turn["start"] : turn["end"]] = [1.0] * (turn["end"] - turn["start"])
    return at + 1, turn["turn_id"], f"loss_weights[{turn['start']}]"


@FORGERIES.change("split")
def a_weight_that_is_no_part(rows, _footer, random):
    at, turn, _ = at_position(sampled(rows, random))
    rows[at]["loss_weights"][turn["start"] : turn["end"]] = [0.75] * (turn["end"] - turn["start"])
    return at + 1, turn["turn_id"], f"loss_weights[{turn['start']}]"


@FORGERIES.change("split")
def another_weight_within_a_turn(rows, _footer, random):
    at, turn, _ = at_position(sampled(rows, random))
    rows[at]["loss_weights"][turn["end"] - 1] = f32(1 / 7)
    return at + 1, turn["turn_id"], f"loss_weights[{turn['end'] - 1}]"


@FORGERIES.change("split")
def a_weight_on_a_prompt(rows, _footer, random):
    at, turn, position = at_position(prompted(rows, random))
    rows[at]["loss_weights"][position] = 1.0
    return at + 1, turn["turn_id"], f"loss_weights[{position}]"


@FORGERIES.change("split")
def weights_left_out(rows, _footer, random):
    del rows[2]["loss_weights"]
    return 3, None, "loss_weights"


@FORGERIES.change("duplicate")
def a_duplicate_that_is_not_trained(rows, _footer, random):
    at, place, turn = in_row(twice(rows, random))
    turn |= {"trained": False, "masked_because": "earlier_row"}
    rows[at]["loss_mask"][turn["start"] : turn["end"]] = [0] * (turn["end"] - turn["start"])
    return at + 1, turn["turn_id"], f"turns[{place}].masked_because"


@FORGERIES.change("fresh")
def a_stale_turn_trained(rows, _footer, random):
    at, place, turn = next(
        (at, place, turn)
        for at, row in enumerate(rows)
        for place, turn in enumerate(row["turns"])
        if turn["masked_because"] == "stale"
    )
    turn |= {"trained": True, "masked_because": None}
    return at + 1, turn["turn_id"], f"turns[{place}].trained"


@FORGERIES.change("latest")
def a_distribution_that_was_not_selected(rows, _footer, random):
    chosen = rows[0]["certificate"]["selection"]
    chosen["distribution"] = ["greedy"]
    return 1, rows[0]["turns"][0]["turn_id"], "turns[0].trained"


@FORGERIES.change("aborted")
def an_aborted_turn_that_was_not_selected(rows, _footer, random):
    for row in rows:
        row["certificate"]["selection"]["include"] = []
    return 2, rows[1]["row_id"], "turns["


@FORGERIES.change()
def more_leaves_than_the_latest(rows, _footer, random):
    for row in rows:
        row["certificate"]["selection"]["leaves"] = "latest"
    return 2, None, "certificate.selection.leaves"


@pytest.mark.parametrize(("change", "export"), FORGERIES)
def test_a_forgery_is_refused_and_its_place_named(exports, tmp_path, change, export):
    """However rows were selected."""
    check_refused(tmp_path, exports[export], change, forged=True)
