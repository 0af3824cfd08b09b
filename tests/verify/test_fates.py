"""What a row says became of a turn is held to the turns that go on from it."""

from pathlib import Path
from typing import Any

import pytest

from gateway.verify.mismatch import Mismatch
from gateway.verify.verdict import verify
from tests.verify.writer import Json, Turns, certified, footer_of, lines, rows_of


def refused(tmp_path: Path, rows: list[Json], excluded: list[Json] | None) -> Mismatch | None:
    """What is wrong with rows; without `excluded` there is no footer."""
    file = tmp_path / "rows"
    file.write_bytes(lines(rows, None if excluded is None else footer_of(rows, excluded)))
    return verify(file).mismatch


def forked(**said: Any) -> Turns:
    """A turn, and one that goes on from it: in its row, or in a render of its own."""
    turns = Turns()
    turns.add("a", **said)
    turns.add("b", "a")
    turns.add("c", reason="history_edited", parent_id="b")
    return turns


def told(turn_id: str, reason: str) -> Json:
    """A turn that no row trains."""
    return {"session_id": "s", "turn_id": turn_id, "reason": reason, "tokens": 3}


def test_an_undelivered_turn_that_nothing_goes_on_from_is_masked(tmp_path):
    """As the last of its row, or trained where something goes on."""
    turns = forked()
    turns.turns["c"]["delivered"] = turns.turns["a"]["delivered"] = False
    masked = rows_of(turns, "bc", masked={"c": "undelivered"}, shared="duplicate")
    assert refused(tmp_path, masked, [told("c", "undelivered")]) is None

    found = refused(tmp_path, trained := rows_of(turns, "bc"), [])
    assert found is not None
    assert (2, "c", "turns[0].trained") == (found.row, found.turn_id, found.at)
    assert refused(tmp_path, trained, [told("d", "aborted")]) is None  # which may go on from it
    assert refused(tmp_path, trained, None) is None

    turns.add("e", reason="history_edited", delivered=False)
    found = refused(tmp_path, rows_of(turns, "bce"), [told("d", "aborted")])  # but not from both
    assert found is not None
    assert "e" == found.turn_id


@pytest.mark.parametrize("continued", ["a", "b"])
def test_an_undelivered_turn_that_is_gone_on_from_was_delivered(tmp_path, continued):
    """In its own row or in another; its row is named."""
    turns = forked()
    turns.turns[continued]["delivered"] = False
    rows = rows_of(turns, "bc", masked={continued: "undelivered"})
    for excluded in ([told(continued, "undelivered")], None):
        found = refused(tmp_path, rows, excluded)
        assert found is not None
        assert (continued, "another" if excluded else "something") == (found.turn_id, str(found.expected).split()[0])
        if excluded is None:
            assert (1, f"turns[{'ab'.index(continued)}].masked_because") == (found.row, found.at)


def test_a_turn_that_is_gone_on_from_was_not_dropped(tmp_path):
    """Whether it is trained or not."""
    found = refused(tmp_path, rows_of(forked(dropped_by_harness=True), "bc"), [])
    assert found is not None
    assert (1, "a", "turns[0].dropped_by_harness") == (found.row, found.turn_id, found.at)


@pytest.mark.parametrize("reason", ["stale", "dropped", "distribution", "leaf", "aborted"])
def test_a_turn_is_excluded_for_what_the_selection_leaves_out(tmp_path, reason):
    """Of a session without rows anything may be."""
    admits: dict[str, Json] = {
        "stale": {"max_staleness": 1},
        "dropped": {"dropped": "exclude"},
        "distribution": {"distribution": ["exact"]},
        "leaf": {"leaves": "latest"},
        "aborted": {"include": []},
    }
    turns = Turns()
    turns.add("a")
    (row,) = rows_of(turns, "a", include=["aborted"])
    excluded = [told("x", reason)]

    row["certificate"]["selection"] |= admits[reason]
    assert refused(tmp_path, [certified(row)], excluded) is None
    found = refused(tmp_path, rows := rows_of(turns, "a", include=["aborted"]), excluded)
    assert found is not None
    assert ("x", "footer.excluded[0].reason") == (found.turn_id, found.at)
    assert refused(tmp_path, rows, [told("x", reason) | {"session_id": "t"}]) is None


def test_pages_of_another_reward_may_be_joined_but_have_no_footer(tmp_path):
    """The field that differs is named."""
    rows = rows_of(forked(), "bc")
    for name, value in (("reward", 2.0), ("metadata", {})):
        joined = [rows[0], certified(rows[1] | {name: value})]
        assert refused(tmp_path, joined, None) is None
        found = refused(tmp_path, joined, [])
        assert found is not None
        assert (2, name) == (found.row, found.at)


def test_a_row_does_not_go_on_from_a_later_one(tmp_path):
    """Though both say so."""
    turns = Turns()
    turns.add("a", parent_id="b")
    turns.add("b", parent_id="a")
    rows = rows_of(turns, "ab")
    found = refused(tmp_path, [certified(rows[0] | {"parent_row_id": "b"}), rows[1]], [])
    assert found is not None
    assert (1, "parent_row_id") == (found.row, found.at)


def test_rows_that_are_not_all_there_train_no_more_than_they_tell(tmp_path):
    """Their sum, and the parts of a turn."""
    turns = Turns()
    turns.add("a")
    for name in "bcd":
        turns.add(name, "a")
    rows = [certified(row | {"rollout_trainable_tokens": 8}) for row in rows_of(turns, "bcd")]
    page = tmp_path / "page"
    page.write_bytes(b'{"data": [' + lines(rows[:2]).strip().replace(b"\n", b",") + b'], "next": "c"}')
    found = verify(page).mismatch
    assert found is not None
    assert (2, "rollout_trainable_tokens") == (found.row, found.at)

    rows = rows_of(turns, "bcd", shared="split")
    for row in rows:
        row["loss_weights"][4:7] = [0.5] * 3
    found = refused(tmp_path, [certified(row) for row in rows], None)
    assert found is not None
    assert (3, "loss_weights[4]") == (found.row, found.at)
