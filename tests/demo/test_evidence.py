"""What the demo counts as wrong, and that it notices when a promise is broken."""

import io

import pytest
from rich.console import Console

from gateway.demo.agent import Exchange
from gateway.demo.evidence import Line, faults_of, faults_of_engine, wrong
from gateway.demo.table import show
from gateway.sim.journal import Entry


@pytest.mark.parametrize(
    ("recorded", "again", "moved", "lost"),
    [
        ([1, 2, 3], [1, 2, 3], 0, 0),
        ([1, 2, 3], [1, 2, 3, 9], 0, 0),
        ([1, 2, 3, 4], [1, 9, 3, 4], 1, 1),
        ([1, 2, 3, 4], [1, 9, 9, 3, 4], 3, 1),
        ([1, 2, 3, 4], [2, 3, 4], 4, 1),
        ([1, 2], [], 2, 2),
    ],
)
def test_ids_are_moved_behind_a_shift_and_lost_only_where_they_are_missing(recorded, again, moved, lost):
    """What follows the recorded context does not count."""
    assert wrong(recorded, again) == (moved, lost)


def session():
    """Six turns of two ids each behind a prompt of one, and their row."""
    ids = list(range(18))
    exchanges = [Exchange(f"t{n}", ids[: 3 * n + 1], ids[3 * n + 1 : 3 * n + 3], []) for n in range(6)]
    turns = [
        {"turn_id": f"t{n}", "how": "bridged" if n else "rendered", "reason": None if n else "first_turn"}
        | {"start": 3 * n + 1, "end": 3 * n + 3, "rank": 0, "completion_tokens": 2}
        for n in range(6)
    ]
    return exchanges, {"token_ids": ids, "loss_mask": [0, 1, 1] * 6, "logprobs": [0.0, -1.0, -2.0] * 6, "turns": turns}


def test_a_session_that_keeps_its_promises_has_no_faults():
    """Nor does one that rendered again."""
    exchanges, row = session()

    assert faults_of(exchanges, [row]) == []


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda exchanges, _: exchanges.pop(), "5 turns"),
        (lambda _, row: row["turns"].pop(), "turn 6 is in no row"),
        (lambda _, row: row["token_ids"].__setitem__(4, 99), "turn 2: the row's ids"),
        (lambda exchanges, _: exchanges[1].prompt_ids.__setitem__(0, 99), "does not extend"),
        (lambda _, row: row["logprobs"].__setitem__(5, float("nan")), "turn 2: a sampled id without a logprob"),
        (lambda _, row: row["logprobs"].__setitem__(5, 0.5), "turn 2: a sampled id without a logprob"),
        (lambda _, row: row["loss_mask"].__setitem__(0, 1), "not trained exactly once"),
    ],
)
def test_a_broken_promise_is_a_fault(spoil, says):
    """Each of them, and it names the turn where there is one."""
    exchanges, row = session()
    spoil(exchanges, row)

    assert any(says in fault for fault in faults_of(exchanges, [row])), faults_of(exchanges, [row])


def test_the_engines_journal_has_the_last_word():
    """A turn that it does not know is a fault."""
    exchanges, _ = session()
    entries = [Entry(None, {}, {}, e.prompt_ids, None, emitted=e.completion_ids, rank=1) for e in exchanges]

    assert faults_of_engine(entries, exchanges, [0] * 6) == []
    assert faults_of_engine(entries[1:], exchanges, [0] * 6) == ["turn 1 is not what the engine was asked and said"]


def test_a_rank_that_was_asked_for_is_the_one_that_served():
    """And a session stays on it."""
    exchanges, _ = session()
    asked = {"x-data-parallel-rank": "1"}
    entries = [Entry(None, asked, {}, e.prompt_ids, None, emitted=e.completion_ids, rank=1) for e in exchanges]

    assert faults_of_engine(entries, exchanges, [1] * 6) == []
    assert len(faults_of_engine(entries, exchanges, [0] * 6)) == 6
    assert any("spread over ranks [0, 1]" in fault for fault in faults_of_engine(entries, exchanges, [1] * 5 + [0]))


def shown(lines, broken):
    file = io.StringIO()
    show(Console(file=file, width=200), lines, broken)
    return file.getvalue()


def test_totals_count_each_row_once():
    """A context that is extended is counted where it ends."""
    _, row = session()
    row["turns"][3]["how"] = "rendered"
    lines = [Line("s", n + 1, turn, 2, moved=10 * n, lost=n) for n, turn in enumerate(row["turns"])]

    assert "would have lost 7 of 27 ids and moved 70." in shown(lines, [])
    assert "All 12 sampled tokens are trained once" in shown(lines, [])


def test_a_fault_is_shown_and_no_success_claimed():
    """Also where no turn was taken at all."""
    assert "broken: [x] y" in shown([], ["[x] y"])
    assert "An invariant is broken" in shown([], ["[x] y"])
