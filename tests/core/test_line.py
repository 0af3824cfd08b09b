"""In which order those go who wait for a rank."""

import time

from gateway.core.line import Line, Waiting
from gateway.core.pool import Affinity, Demand

A, B, C = (Affinity(name) for name in "abc")


def call(affinity, number, *, remaining=0, release=None):
    """One call that waits."""
    return Waiting(affinity, Demand(1, remaining), number, release)


def in_order(line, turns=0):
    """Everybody in line, as they go; the turns of each session in flight count up."""
    served: list[tuple[str, int]] = []
    seats: dict[Affinity, int] = {}
    while front := line.front:
        first = front[1]
        seats[first.affinity] = seats.get(first.affinity, turns) + 1
        line.leave(first, seats[first.affinity])
        served.append((first.affinity.session_id, first.number))
    return served


def test_sessions_that_have_as_much_go_as_they_came():
    """First come, first served."""
    line: Line[Waiting] = Line()
    for number, affinity in enumerate([B, A, C]):
        line.join(call(affinity, number), 0)
    assert len(line) == 3
    assert in_order(line) == [("b", 0), ("a", 1), ("c", 2)]
    assert len(line) == 0


def test_a_session_with_many_branches_holds_up_nobody():
    """Each session has one in flight before one has two."""
    line: Line[Waiting] = Line()
    for number, affinity in enumerate([A, A, A, B, C, C]):
        line.join(call(affinity, number), 0)
    assert in_order(line) == [("a", 0), ("b", 3), ("c", 4), ("a", 1), ("c", 5), ("a", 2)]


def test_turns_that_end_bring_a_session_forward():
    """And turns that it gets elsewhere put it back."""
    line: Line[Waiting] = Line()
    calls = [call(A, 0), call(B, 1)]
    for waiting, turns in zip(calls, (2, 1), strict=True):
        line.join(waiting, turns)
    assert line.front == ((1, 1, 1, 0), calls[1])
    line.note(A, 0)
    assert line.front == ((1, 0, 0, 0), calls[0])
    line.note(A, 3)
    line.note(C, 9)
    assert line.front[1] is calls[1]


def test_what_a_pause_held_goes_first_and_the_shortest_before_others():
    """What an earlier pause had held goes before what a later one had."""
    line: Line[Waiting] = Line()
    line.join(call(C, 0), 0)
    line.join(call(A, 1, remaining=900, release=1), 5)
    line.join(call(A, 2, remaining=10, release=1), 5)
    line.join(call(B, 3, remaining=500, release=1), 0)
    line.join(call(B, 4, remaining=1, release=2), 0)
    assert [number for _, number in in_order(line)] == [2, 3, 1, 4, 0]


def test_who_leaves_from_the_middle_is_not_missed():
    """The next of its session steps forward; what stands behind another keeps its place."""
    line: Line[Waiting] = Line()
    calls = [call(affinity, number) for number, affinity in enumerate([A, B, B, A, B])]
    for waiting in calls:
        line.join(waiting, 0)
    line.leave(calls[0], 0)
    line.leave(calls[2], 0)
    assert in_order(line) == [("b", 1), ("a", 3), ("b", 4)]


def test_who_is_passed_over_keeps_its_place():
    """Others may go before it this time, or step back; it may leave meanwhile, too."""
    line: Line[Waiting] = Line()
    calls = [call(affinity, number) for number, affinity in enumerate([A, B, C])]
    for waiting in calls:
        line.join(waiting, 0)
    line.pass_over()
    line.leave(calls[1], 1)
    line.pass_over()
    line.pass_over()
    assert line.front is None
    line.recall()
    assert in_order(line) == [("a", 0), ("c", 2)]
    for waiting in calls:
        line.join(waiting, 0)
    line.pass_over()
    line.note(A, 1)
    line.leave(calls[1], 0)
    line.recall()
    assert in_order(line) == [("c", 2), ("a", 0)]


def test_two_thousand_wait_and_leave_in_no_time():
    """Of one session or of many; and nothing is kept of who has left."""
    for affinities in ([A] * 2000, [Affinity(str(at)) for at in range(2000)]):
        line: Line[Waiting] = Line()
        begun_s = time.process_time()
        for number, affinity in enumerate(affinities):
            line.join(call(affinity, number), 0)
            line.note(affinities[0], number)
        assert len(in_order(line)) == 2000
        assert time.process_time() - begun_s < 0.5
        assert len(line._heap) < 100
