"""Pauses in force, by owner: the strictest decides, and each ends with its lease."""

import pytest

from gateway.core.pause import PausesInForce, impatient


def test_without_a_pause_nothing_is_held():
    """Nor ends anything."""
    none = PausesInForce()
    assert (none.held, none.mode, none.since_s, none.until_s, none.next_end_s, list(none)) == (None,) * 5 + ([],)
    assert none.end() == none.end("nobody") == none.expire(1e9) == []


@pytest.mark.parametrize(
    ("pauses", "held", "mode"),
    [
        ([("hold", "new_sessions")], "new_sessions", None),
        ([("hold", "new_sessions"), ("hold", "all")], "all", "hold"),
        ([("drain", "all"), ("hold", "all")], "all", "drain"),
        ([("hold", "all"), ("cut", "all"), ("drain", "all")], "all", "cut"),
    ],
)
def test_the_strictest_pause_decides(pauses, held, mode):
    """Of several owners; a pause of new sessions does nothing to calls under way."""
    board = PausesInForce()
    for number, (each, scope) in enumerate(pauses):
        board.begin(f"owner {number}", each, scope, lease_s=5, now_s=0)
    assert (board.held, board.mode) == (held, mode)


def test_to_pause_again_renews_the_lease_and_is_no_second_pause():
    """What it was before is forgotten, but for when it began."""
    board = PausesInForce()
    board.begin("a", "cut", "all", lease_s=10, now_s=100)
    again = board.begin("a", "hold", "new_sessions", lease_s=10, now_s=105)
    assert list(board) == [again]
    assert (again.since_s, again.until_s) == (100, 115)
    assert (board.held, board.mode) == ("new_sessions", None)


def test_a_pause_ends_by_its_owner_or_by_anybody_for_all():
    """An owner that has none ends nothing."""
    board = PausesInForce()
    for owner in "abc":
        board.begin(owner, "hold", "all", lease_s=10, now_s=0)
    assert [pause.owner for pause in board.end("b")] == ["b"]
    assert board.end("b") == []
    assert [pause.owner for pause in board.end()] == ["a", "c"]
    assert board.held is None


def test_a_pause_ends_with_its_lease():
    """Each with its own; what is left is told by the first and the last of them."""
    board = PausesInForce()
    board.begin("a", "hold", "all", lease_s=10, now_s=0)
    board.begin("b", "drain", "all", lease_s=5, now_s=1)
    assert (board.since_s, board.next_end_s, board.until_s) == (0, 6, 10)
    assert board.expire(5.9) == []
    assert [pause.owner for pause in board.expire(6)] == ["b"]
    assert board.mode == "hold"
    assert [pause.owner for pause in board.expire(99)] == ["a"]


def test_a_pause_that_could_not_be_is_undone():
    """The owner has what it had before: another, or none."""
    board = PausesInForce()
    before = board.begin("a", "hold", "all", lease_s=10, now_s=0)
    refused = board.begin("a", "cut", "all", lease_s=10, now_s=5)
    board.refuse(refused)
    board.refuse(refused)
    assert board.of("a") is before
    board.refuse(before)
    board.refuse(before)
    assert (board.held, board.of("a")) == (None, None)


def test_of_pauses_that_are_refused_none_comes_back_for_another():
    """In whatever order that is known; the last that was asked for and not refused is in force."""
    for order in ([0, 1], [1, 0]):
        board = PausesInForce()
        twice = [board.begin("a", "hold", "all", lease_s=10, now_s=0) for _ in range(2)]
        for number in order:
            board.refuse(twice[number])
        assert board.of("a") is None


def test_what_was_before_a_pause_that_is_settled_never_comes_back():
    """One that is over cannot be settled any more."""
    board = PausesInForce()
    board.begin("a", "hold", "all", lease_s=10, now_s=0)
    settled = board.begin("a", "drain", "all", lease_s=10, now_s=0)
    board.settle(settled)
    board.refuse(settled)
    board.settle(settled)
    assert board.held is None


def test_a_long_pause_is_warned_about():
    """By its lease, from its beginning on."""
    board = PausesInForce()
    assert board.warnings() == []
    board.begin("a", "hold", "all", lease_s=10, now_s=1000)
    assert board.warnings() == []
    board.begin("a", "hold", "all", lease_s=295, now_s=1005)
    (warning,) = board.warnings()
    assert "300 s" in warning
    assert "undici" in warning


@pytest.mark.parametrize(("held_s", "clients"), [(299, 0), (300, 1), (599, 1), (600, 2)])
def test_clients_wait_for_so_long_and_no_longer(held_s, clients):
    """Node's fetch for five minutes, the SDKs for ten."""
    assert len(impatient(held_s)) == clients
