"""A marked retry is answered by the call that it repeats; everything else is sampled."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from tests.edge.house import HELLO, House, OpenHouse, Words, until, user, waiting
from tests.edge.marks import is_replayed, keyed, retry, turn_id

LONG = "A long answer. " * 40


async def statuses(house: House, session: str = "s") -> list[str]:
    """What the turns of a session are, in order."""
    return [turn["status"] for turn in await house.turns(session)]


async def test_within_the_grace_a_retry_joins(open_house: OpenHouse, words: Words) -> None:
    """One call to the engine, and one complete turn: the first socket was closed while it was sampled."""
    house = await open_house(disconnect_grace_s=10, sim={"token_delay_s": 0.01})
    async with waiting(house, "s", HELLO, words.said(LONG[:60])):
        await until(lambda: house.journal and house.journal[0].emitted)

    answer = await house.ask("s", HELLO, words.said(LONG[:60]), headers=retry())

    assert is_replayed(answer)
    (turn,) = await house.turns("s")
    assert (turn["turn_id"], turn["status"]) == (turn_id(answer), "complete")
    assert len(house.journal) == 1


async def test_without_grace_a_retry_is_sampled_again(open_house: OpenHouse, words: Words) -> None:
    """Both are recorded as what they are."""
    house = await open_house(sim={"token_delay_s": 0.005})
    async with waiting(house, "s", HELLO, words.said(LONG[:60])):
        await until(lambda: house.journal and len(house.journal[0].emitted) >= 9)
    await until(lambda: house.journal[0].disconnected)

    answer = await house.ask("s", HELLO, words.said(LONG[:60]), headers=retry())

    assert not is_replayed(answer)
    assert await statuses(house) == ["aborted", "complete"]
    assert turn_id(answer) == (await house.turns("s"))[1]["turn_id"]
    assert len(house.journal) == 2


async def test_a_grace_that_ends_is_as_a_client_that_leaves(open_house: OpenHouse, words: Words) -> None:
    """The engine is left, and what was sampled is an aborted turn."""
    house = await open_house(disconnect_grace_s=0.1)
    house.faults.inject("stall", after=3)
    async with waiting(house, "s", HELLO, words.said(LONG)):
        await until(lambda: house.journal and house.journal[0].emitted)

    await until(lambda: house.journal[0].disconnected)
    await house.idle()
    assert await statuses(house) == ["aborted"]


async def test_a_retry_joins_a_call_whose_client_still_seems_to_wait(open_house: OpenHouse, words: Words) -> None:
    """Both get the same turn; the first is not disturbed when the second leaves."""
    house = await open_house(sim={"token_delay_s": 0.005})
    async with waiting(house, "s", HELLO, words.said(LONG[:60])) as first:
        await until(lambda: house.journal)
        second = await house.ask("s", HELLO, words.said(LONG[:60]), headers=retry())
        assert turn_id(await first) == turn_id(second)
    assert (is_replayed(await first), is_replayed(second), len(house.journal)) == (False, True, 1)
    assert not is_replayed(await house.ask("s", HELLO, words.said(LONG[:60]), headers=retry()))  # the count is used up


async def test_of_two_equal_calls_the_retry_gets_the_one_that_nobody_waits_for(
    open_house: OpenHouse, words: Words
) -> None:
    """The other one's client is served as well, with its own."""
    house = await open_house(disconnect_grace_s=10, sim={"token_delay_s": 0.01})
    script = words.said(LONG[:60])
    async with waiting(house, "s", HELLO, script) as stays:
        await until(lambda: house.journal)
        async with waiting(house, "s", HELLO, script):
            await until(lambda: len(house.journal) == 2)
        retried = await house.ask("s", HELLO, script, headers=retry())
        assert turn_id(retried) != turn_id(await stays)
    assert (is_replayed(retried), len(house.journal)) == (True, 2)


async def test_keys_never_swap_while_their_calls_run(open_house: OpenHouse, words: Words) -> None:
    """Each key joins its own."""
    house = await open_house(sim={"token_delay_s": 0.01})
    script = words.said(LONG[:60])
    calls = [asyncio.ensure_future(house.ask("s", HELLO, script, headers=keyed(key))) for key in "abab"]
    answers = await asyncio.gather(*calls)

    assert turn_id(answers[0]) == turn_id(answers[2]) != turn_id(answers[1]) == turn_id(answers[3])
    assert len(house.journal) == 2


async def test_a_key_with_another_body_is_refused(house: House) -> None:
    """The caller is told which field is at fault; the key goes on to work with its own body, and in other sessions."""
    first = await house.ask("s", headers=keyed("k"))

    other = await house.ask("s", [user("Something else?")], headers=keyed("k"))

    assert (other.status, other.error["param"]) == (400, "Idempotency-Key")
    assert turn_id(await house.ask("s", headers=keyed("k"))) == turn_id(first)
    assert not is_replayed(await house.ask("t", [user("Something else?")], headers=keyed("k")))
    assert len(house.journal) == 2


async def test_a_key_that_is_too_long_is_refused(house: House) -> None:
    """Before anything is sampled."""
    answer = await house.ask("s", headers=keyed("k" * 256))

    assert (answer.status, answer.error["param"]) == (400, "Idempotency-Key")
    assert house.journal == []


async def test_calls_with_a_key_and_without_never_answer_each_other(house: House) -> None:
    """Neither way round."""
    answers = [
        await house.ask("s"),
        await house.ask("s", headers=keyed("k")),
        await house.ask("s", headers=retry()),
        await house.ask("s", headers={**keyed("k"), **retry()}),
    ]

    ids = [turn_id(answer) for answer in answers]
    assert (ids[2], ids[3]) == (ids[0], ids[1])
    assert len(house.journal) == 2


@pytest.mark.parametrize("count", [None, "0", "", "-1", "1.5", "one", "١", "9" * 10])
async def test_what_is_not_marked_is_a_resample(house: House, count: str | None) -> None:
    """A sibling, as often as it is sent; a count that is no number marks nothing."""
    for _ in range(2):
        assert not is_replayed(await house.ask("s", headers={} if count is None else retry(count)))

    assert len(house.journal) == len(await house.turns("s")) == 2


async def test_each_count_is_answered_once_by_each_turn(house: House) -> None:
    """The oldest first; when none is left, another is sampled."""
    first = turn_id(await house.ask("s"))
    again = await house.ask("s", headers=retry(1))
    assert (turn_id(again), is_replayed(again)) == (first, True)

    sampled = await house.ask("s", headers=retry(1))
    assert not is_replayed(sampled)

    assert turn_id(await house.ask("s", headers=retry(2))) == first
    assert turn_id(await house.ask("s", headers=retry(2))) == turn_id(sampled)
    assert not is_replayed(await house.ask("s", headers=retry(2)))
    assert len(house.journal) == 3


async def test_another_body_is_another_call(house: House) -> None:
    """And so is another session; all calls that name no session are of one kind."""
    named, unnamed = await house.ask("s"), await house.ask(None)

    assert not is_replayed(await house.ask("t", headers=retry()))
    assert not is_replayed(await house.ask("s", [user("Hello!")], headers=retry()))
    assert turn_id(await house.ask(None, headers={**retry(), "X-Session-ID": "s"})) == turn_id(named)
    again = await house.ask(None, headers=retry())
    assert turn_id(again) == turn_id(unnamed)
    assert again.headers["x-session-id"] == unnamed.headers["x-session-id"]


async def test_large_bodies_are_told_apart_by_their_last_byte(house: House) -> None:
    """They are read off the event loop."""
    first = await house.ask("s", padding="x" * 1_100_000)

    assert not is_replayed(await house.ask("s", padding="x" * 1_099_999 + "y", headers=retry()))
    assert turn_id(await house.ask("s", padding="x" * 1_100_000, headers=retry())) == turn_id(first)


async def test_a_replay_says_what_the_first_answer_said(house: House, words: Words) -> None:
    """All choices of it; only the request has an id of its own."""
    script = words.said("Hi.")
    first = await house.ask("s", HELLO, script, n=2, return_token_ids=True)

    again = await house.ask("s", HELLO, script, n=2, return_token_ids=True, headers=retry())

    assert is_replayed(again)
    assert (again.headers["x-turn-id"], again.headers["x-session-id"]) == (first.headers["x-turn-id"], "s")
    assert again.headers["x-request-id"] != first.headers["x-request-id"]
    assert {**again.body, "created": 0} == {**first.body, "created": 0}


@pytest.mark.parametrize("headers", [[{}, retry()], [keyed("k"), keyed("k")]])
async def test_who_joined_a_call_that_fails_gets_its_error(
    open_house: OpenHouse, words: Words, headers: Sequence[Mapping[str, str]]
) -> None:
    """And the next retry is sampled, with the key or without."""
    house = await open_house(sim={"token_delay_s": 0.005})
    house.faults.inject("cut", after=20)
    calls = [asyncio.ensure_future(house.ask("s", HELLO, words.said(LONG[:60]), headers=each)) for each in headers]
    answers = await asyncio.gather(*calls)
    assert [answer.status for answer in answers] == [503, 503]
    assert len(house.journal) == 1

    again = await house.ask("s", HELLO, words.said(LONG[:60]), headers={**headers[1], **retry(2)})

    assert (again.status, is_replayed(again)) == (200, False)


async def test_calls_that_fail_together_do_not_come_back_as_one(house: House) -> None:
    """Each of them is sampled, and so are their retries: resamples are there to differ."""
    house.faults.inject("error_503", times=4)
    failed = await asyncio.gather(*(house.ask("s") for _ in range(4)))
    assert {answer.status for answer in failed} == {503}

    retried = await asyncio.gather(*(house.ask("s", headers=retry()) for _ in range(4)))

    assert len({turn_id(answer) for answer in retried}) == 4
    assert not any(map(is_replayed, retried))


async def test_a_call_that_failed_is_not_answered_by_an_equal_one_that_did_well(house: House) -> None:
    """Its retry is sampled; when that answer is lost, the retry after it gets it."""
    well = await house.ask("s")
    house.faults.inject("error_503")
    assert (await house.ask("s")).status == 503

    retried = await house.ask("s", headers=retry())

    assert not is_replayed(retried)
    assert turn_id(retried) != turn_id(well)


async def test_a_deleted_session_replays_nothing(house: House) -> None:
    """The retry is refused as every call is; where no session was named, it is sampled in a new one."""
    await house.ask("s")
    unnamed = (await house.ask(None)).headers["x-session-id"]
    for session in ("s", unnamed):
        assert (await house.call("DELETE", f"/sessions/{session}")).status == 204

    assert (await house.ask("s", headers=retry())).status == 409
    again = await house.ask(None, headers=retry())
    assert (again.status, is_replayed(again)) == (200, False)
    assert again.headers["x-session-id"] != unnamed


async def test_a_finished_session_still_replays(house: House) -> None:
    """An answer that was lost before the end is no new turn."""
    first = await house.ask("s")
    assert (await house.call("POST", "/sessions/s/finish")).status == 200

    assert turn_id(await house.ask("s", headers=retry())) == turn_id(first)
    assert (await house.ask("s", headers=retry())).status == 409


@pytest.mark.parametrize("settings", [{"retry_window_calls": 0}, {"retry_window_s": 0}])
async def test_beyond_the_window_a_retry_is_sampled(open_house: OpenHouse, settings: dict[str, int]) -> None:
    """Whatever it is marked with."""
    house = await open_house(**settings)
    for headers in (retry(), keyed("k"), keyed("k")):
        await house.ask("s")
        await asyncio.sleep(0.01)
        assert not is_replayed(await house.ask("s", headers=headers))
