"""The account of every sampled token, in its short form; ``make test-conservation`` has five hundred sessions."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from struct import pack, unpack

import pytest

from tests.conservation.balance import UNREAD_IDS, Balance, Seen, Told, balance_of, joined, keys_of
from tests.conservation.trial import Account, Plan, accounted

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def account() -> Account:
    """What a few sessions did."""
    return asyncio.run(accounted(Plan(sessions=15, together=15, turns=3)))


def held_against(account: Account, told: Sequence[Told]) -> Balance:
    """The account with something else told."""
    return balance_of(account.seen, told, account.outcomes)


def longest(account: Account, *, complete: bool = True) -> Told:
    """The turn that sampled most."""
    return max((turn for turn in account.told if turn.complete == complete), key=lambda turn: len(turn.keys))


def test_what_left_the_engine_is_trained_or_left_out_for_a_reason_and_nothing_twice(account: Account) -> None:
    """And every claim of the rows that say so can be derived again."""
    balance, without_partials = account.balances()

    assert [*account.faults, *balance.faults, *without_partials.faults] == []
    assert account.verdict.mismatch is None
    assert balance.trained > balance.seen / 2
    assert balance.overshoot > 0
    assert balance.most_unread <= UNREAD_IDS
    assert without_partials.excluded["aborted"] > 0
    assert account.did["hung_up"] > 3


def test_a_turn_that_nobody_tells_of_is_missed(account: Account) -> None:
    """By the call that it answered."""
    turn = longest(account)
    faults = held_against(account, [other for other in account.told if other is not turn]).faults

    assert any("nothing tells of it" in fault and f"{len(turn.keys) + turn.overshoot} ids" in fault for fault in faults)


def test_a_partial_that_nobody_tells_of_is_missed(account: Account) -> None:
    """Though a few ids of a call that was hung up on may have been on their way."""
    partial, (balance, _) = longest(account, complete=False), account.balances()
    rest, most = [turn for turn in account.told if turn is not partial], balance.most_unread
    assert len(partial.keys) > most

    assert balance_of(account.seen, rest, account.outcomes, may_be_unread=most).faults


def test_a_turn_that_is_told_twice_is_named(account: Account) -> None:
    """Once too often is not what the engine said."""
    turn = longest(account)

    assert any(turn.turn_id in fault for fault in held_against(account, [*account.told, turn]).faults)


def test_the_last_bit_of_a_logprob_is_missed(account: Account) -> None:
    """And found in its place."""
    turn = longest(account)
    context, position, token_id, logprob = turn.keys[5]
    (bits,) = unpack("<I", logprob)
    changed = (context, position, token_id, pack("<I", bits ^ 1))
    other = replace(turn, keys=[*turn.keys[:5], changed, *turn.keys[6:]])
    told = [other if one is turn else one for one in account.told]

    assert any(
        turn.turn_id in fault and f"position {position} " in fault for fault in held_against(account, told).faults
    )


def test_a_turn_that_ends_early_is_named(account: Account) -> None:
    """The last id of an answer is sampled like any other."""
    turn = longest(account)
    told = [replace(turn, keys=turn.keys[:-1]) if one is turn else one for one in account.told]

    assert any(turn.turn_id in fault for fault in held_against(account, told).faults)


def made_anew(ids_before: int, *, finished: bool = False) -> tuple[list[Seen], Told]:
    """An answer whose first call broke off behind so many ids, and was made anew; and what is told of it."""
    keys = keys_of([7, 8], range(40), [-0.5] * 40)
    cut, whole = Seen("c1", keys[:ids_before], finished, 0, True), Seen("c1-r1", keys, True, 0, True)
    return joined([cut, whole]), Told("t1", None, keys, complete=True, overshoot=0)


def test_what_was_on_its_way_in_a_call_that_broke_before_it_was_read_is_unread() -> None:
    """The answer was made anew: its gateway never saw the first call's ids."""
    seen, told = made_anew(UNREAD_IDS)
    balance = balance_of(seen, [told], {"c1": "answered"})

    assert balance.faults == []
    assert balance.unread == UNREAD_IDS


def test_what_was_read_of_a_call_that_was_given_up_is_missed() -> None:
    """More than can be on its way is a turn that was discarded, and is told."""
    seen, told = made_anew(UNREAD_IDS + 1)

    assert "nothing tells of it" in balance_of(seen, [told], {"c1": "answered"}).faults[0]


def test_a_finished_call_whose_answer_was_made_anew_is_missed() -> None:
    """It did not break off, so it was read."""
    seen, told = made_anew(1, finished=True)

    assert "nothing tells of it" in balance_of(seen, [told], {"c1": "answered"}).faults[0]
