"""What happens between two pages costs no reader a row."""

import asyncio
from collections.abc import Sequence
from urllib.parse import quote

import pytest

from gateway.core.fate import Moment
from gateway.edge.rollouts import MAX_SESSIONS
from gateway.wire.cursor import Cursor, Place
from tests.edge.house import House, Words
from tests.edge.pulling import answered, finish, page


async def test_a_rollout_that_ends_between_two_pages_is_read_to_its_end(house: House, words: Words) -> None:
    """Though it is none of those that are asked for any more; whatever else ends meanwhile is left out."""
    await answered(house, words, "a", finished=False, n=25)
    await answered(house, words, "b", "c", finished=False)
    rows, cursor, _ = await page(house, "status=open")

    await finish(house, "a", 1.0)
    await finish(house, "b")
    more, end, _ = await page(house, "status=open", cursor)

    assert [row["session_id"] for row in more] == ["a"] * 5 + ["c"]
    assert [row["row_index"] for row in rows + more] == [*range(25), 0]
    assert (end, [row["reward"] for row in more]) == (None, [1.0] * 5 + [None])


@pytest.mark.parametrize("query", ["status=open", "status=all", "status=finished"])
async def test_what_is_left_of_a_rollout_that_is_freed_in_part_is_read_again(
    house: House, words: Words, query: str
) -> None:
    """Whether it has ended by then or not; one that is freed as a whole is gone, and those behind it are not missed."""
    for session in ("r1", "r2"):
        await house.send("POST", "/sessions", session_id=session, rollout_id="r")
    finished = query == "status=finished"
    await answered(house, words, "r1", "r2", finished=finished, n=15)
    await answered(house, words, "behind", finished=finished)
    rows, cursor, _ = await page(house, query)
    assert [row["session_id"] for row in rows] == ["r1"] * 15 + ["r2"] * 5

    if finished:
        await house.send("POST", "/trajectories/ack", session_ids=["r1"])
    else:
        await finish(house, "r2")
        await house.send("DELETE", "/sessions/r1")
    again, end, _ = await page(house, query, cursor)
    assert [row["session_id"] for row in again] == ["r2"] * 15 + ["behind"]
    assert [row["row_index"] for row in again[:15]] == list(range(15))
    assert end is None
    await house.send("DELETE", "/sessions/r2")
    assert [row["session_id"] for row in (await page(house, query, cursor))[0]] == ["behind"]


async def test_a_rollout_that_gets_another_session_between_two_pages_is_read_to_its_end_and_anew_as_a_whole(
    house: House, words: Words
) -> None:
    """It then stands behind all others; of one that was freed in part meanwhile, only there."""
    await answered(house, words, "r", n=25)
    await answered(house, words, "other")
    _, cursor, _ = await page(house)
    await house.send("POST", "/sessions", session_id="r2", rollout_id="r")

    assert [row["session_id"] for row in (await page(house, cursor=cursor))[0]] == ["r"] * 5 + ["other"]
    await answered(house, words, "r2")
    rows, following, _ = await page(house, cursor=cursor)
    assert [row["session_id"] for row in rows] == ["r"] * 5 + ["other"] + ["r"] * 14
    assert {row["n_rows"] for row in rows[:5]} == {25}
    assert {row["n_rows"] for row in rows[6:]} == {26}
    assert len((await page(house, cursor=following))[0]) == 12
    await house.send("DELETE", "/sessions/r")
    assert [row["session_id"] for row in (await page(house, cursor=cursor))[0]] == ["other", "r2"]


@pytest.mark.parametrize("query", ["status=open", "status=finished"])
async def test_what_joins_a_rollout_and_leaves_it_between_two_pages_costs_none_of_its_rows(
    house: House, words: Words, query: str
) -> None:
    """With one more, it is read to its end as it was; with one fewer, as a whole, here or once it has ended again."""
    finished = query == "status=finished"
    for session in ("r1", "r2"):
        await house.send("POST", "/sessions", session_id=session, rollout_id="r")
    await answered(house, words, "r1", "r2", finished=finished, n=15)
    await answered(house, words, "other", finished=finished)
    _, cursor, _ = await page(house, query)
    await house.send("POST", "/sessions", session_id="r3", rollout_id="r")
    await answered(house, words, "r3", finished=False)

    rows, end, _ = await page(house, query, cursor)
    assert ([row["session_id"] for row in rows], end) == (["r2"] * 10 + ["other"], None)
    assert {row["n_rows"] for row in rows[:10]} == {30}
    await house.send("DELETE", "/sessions/r1")
    again = ["r2"] * 15 + ["r3"]
    rows, end, _ = await page(house, query, cursor)
    assert ([row["session_id"] for row in rows], end) == (["other"] if finished else [*again, "other"], None)
    await finish(house, "r3")
    rows, end, _ = await page(house, query, cursor)
    assert ([row["session_id"] for row in rows], end) == (["other", *again] if finished else [*again, "other"], None)


async def test_a_cursor_fits_into_a_request_for_as_many_sessions_as_a_rollout_may_have(
    house: House, words: Words
) -> None:
    """Beside a group's name of the longest; one session more is refused."""
    terms = {"rollout_id": "r", "group_id": "\u754c" * 512}
    for number in range(MAX_SESSIONS):
        assert (await house.send("POST", "/sessions", session_id=f"s{number}", **terms)).status == 201
    refused = await house.send("POST", "/sessions", session_id="more", **terms)
    assert (refused.status, refused.error["param"]) == (400, "rollout_id")
    assert str(MAX_SESSIONS) in refused.error["message"]
    await answered(house, words, "s7", finished=False, n=21)

    query = f"status=open&group_id={quote(terms['group_id'])}"
    _, cursor, _ = await page(house, query)
    rows, end, _ = await page(house, query, cursor)
    assert ([row["row_index"] for row in rows], end) == ([20], None)
    old = tuple((1000 * number, Moment(1 << 20, 1 << 20)) for number in range(1, MAX_SESSIONS + 1))
    assert len(str(Cursor(1 << 20, "00000000", Place(1 << 20, 1 << 10, old)))) < 3000


async def test_readers_who_pull_and_free_while_sessions_end_get_each_row_once(house: House, words: Words) -> None:
    """The pages hold still while six agents go on."""
    seen: list[str] = []

    async def play(numbers: Sequence[int]) -> None:
        for number in numbers:
            await answered(house, words, f"s{number}", n=1 + number % 3)

    async def read(players: "asyncio.Future[list[None]]") -> None:
        cursor, ended = None, False
        while not ended:
            ended = players.done()
            rows, following, _ = await page(house, cursor=cursor)
            seen.extend(row["row_id"] for row in rows)
            cursor = following or None
            if following is None and rows:
                await house.send("POST", "/trajectories/ack", session_ids=[row["session_id"] for row in rows])

    players = asyncio.gather(*(play(range(start, 60, 6)) for start in range(6)))
    await read(players)
    await players

    assert len(seen) == len(set(seen)) == 120
