"""A trainer pulls the rows of many sessions, and misses and doubles none of them."""

import asyncio
import socket
import sys
from collections.abc import Sequence
from urllib.parse import quote

import orjson
import pyarrow as pa
import pytest

from gateway.core.fate import Moment
from gateway.edge.rollouts import MAX_SESSIONS
from gateway.wire.cursor import Cursor, Place
from tests.edge.house import HELLO, NARROW_BYTES, House, Json, OpenHouse, Words, until, user, waiting
from tests.edge.keeping import KeepingStore

LINES, COLUMNS = "application/x-ndjson", "application/vnd.apache.arrow.stream"


async def page(house: House, query: str = "", cursor: str | None = None) -> tuple[list[Json], str | None, list[Json]]:
    """One page: its rows, the cursor of the next, and what is trained in no row."""
    path = f"/trajectories?{query}" + (f"&cursor={cursor}" if cursor else "")
    answer = await house.send("GET", path)
    assert answer.status == 200, answer.body
    assert list(answer.body) == ["data", "next", "excluded"]
    return answer.body["data"], answer.body["next"], answer.body["excluded"]


async def pulled(house: House, query: str = "") -> list[str]:
    """The sessions of all rows, page by page, in order."""
    rows, cursor, _ = await page(house, query)
    while cursor:
        more, cursor, _ = await page(house, query, cursor)
        rows += more
    return [row["session_id"] for row in rows]


async def answered(house: House, words: Words, *sessions: str, n: int = 1, finished: bool = True) -> None:
    """Sessions with a turn each, or `n` that are resamples of each other, and so as many rows."""
    for session in sessions:
        assert (await house.ask(session, HELLO, words.said("Hi."), n=n)).status == 200
        if finished:
            await finish(house, session)


async def finish(house: House, session: str, reward: float | None = None) -> None:
    assert (await house.send("POST", f"/sessions/{session}/finish", reward=reward)).status == 200


async def test_finished_sessions_come_in_the_order_in_which_they_ended(open_house: OpenHouse, words: Words) -> None:
    """One with a call under way ends with the call; another reward moves nothing."""
    store = KeepingStore()
    house = await open_house(store=store)
    await answered(house, words, "a", "late", "b", finished=False)
    store.hold()
    async with waiting(house, "late", [*HELLO, user("More.")], words.said("Yes.")) as answer:
        await until(lambda: store.waiting)
        for session in ("late", "b", "a"):
            await finish(house, session, 0.0)
        assert await pulled(house) == ["b", "a"]
        store.release()
        assert (await answer).status == 200
    await finish(house, "b", 1.0)

    rows, _, _ = await page(house)
    assert [(row["session_id"], row["reward"]) for row in rows] == [("b", 1), ("a", 0), ("late", 0), ("late", 0)]


async def test_a_reader_with_a_cursor_misses_nothing_that_ends_later_and_sees_nothing_twice(
    house: House, words: Words
) -> None:
    """Whatever is finished, freed or begun between two pages."""
    await answered(house, words, "first", "second", "wide", n=9)
    await answered(house, words, "open", finished=False)

    rows, cursor, _ = await page(house)
    assert [row["session_id"] for row in rows] == ["first"] * 9 + ["second"] * 9 + ["wide"] * 2
    freed = await house.send("POST", "/trajectories/ack", session_ids=["first", "second"])
    assert freed.body["freed"] == ["first", "second"]
    await finish(house, "open")
    await finish(house, "wide", 1.0)
    await answered(house, words, "new")

    more, end, _ = await page(house, cursor=cursor)
    assert [row["session_id"] for row in more] == ["wide"] * 7 + ["open", "new"]
    assert end is None
    wide = [row for row in rows + more if row["session_id"] == "wide"]
    assert [row["row_index"] for row in wide] == list(range(9))
    await house.send("DELETE", "/sessions/wide")
    assert [row["session_id"] for row in (await page(house, cursor=cursor))[0]] == ["open", "new"]


async def test_open_sessions_are_read_in_the_order_in_which_they_came_to_exist(house: House, words: Words) -> None:
    """The rest of one that was begun is read as it was, though it goes on."""
    await answered(house, words, "a", finished=False, n=21)
    await answered(house, words, "ended")
    await answered(house, words, "b", finished=False)

    assert await pulled(house, "status=finished") == ["ended"]
    assert await pulled(house, "status=open") == ["a"] * 21 + ["b"]
    rows, cursor, _ = await page(house, "status=all")
    await answered(house, words, "a", finished=False, n=2)
    more, end, _ = await page(house, "status=all", cursor)

    assert end is None
    assert [row["session_id"] for row in more] == ["a", "ended", "b"]
    assert len({row["row_id"] for row in rows + more}) == 23
    assert {row["n_rows"] for row in rows + more} == {21, 1}


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


async def test_a_reader_that_takes_nothing_of_its_rows_counts_as_gone(
    open_house: OpenHouse, words: Words, caplog: pytest.LogCaptureFixture
) -> None:
    """So that what it reads is not held for it for ever."""
    house = await open_house(stream_stall_s=0.4, narrow=True)
    await answered(house, words, "a", n=9)
    before = len(await accepted(house, LINES))
    assert before > 3 * NARROW_BYTES
    server = house.http.server
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_BYTES)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, (server.host, server.port))
        await loop.sock_sendall(client, f"GET /trajectories HTTP/1.1\r\nHost: h\r\nAccept: {LINES}\r\n\r\n".encode())
        await until(lambda: "took nothing of its answer" in caplog.text, within_s=4)


async def test_a_group_is_read_alone(house: House, words: Words) -> None:
    """A selection, too, may be asked for."""
    for session, group in (("a", "g"), ("b", "h"), ("c", "g")):
        await house.send("POST", "/sessions", session_id=session, group_id=group)
    await answered(house, words, "a", "b", "c")
    await answered(house, words, "d", n=2)

    assert await pulled(house, "group_id=g") == ["a", "c"]
    assert await pulled(house, "group_id=nobody") == []
    assert await pulled(house, "leaves=latest") == ["a", "b", "c", "d"]


async def test_what_no_row_trains_is_told_with_the_page_on_which_its_rollout_ends(house: House, words: Words) -> None:
    """Also of a session without any row; many of those take more than a page."""
    await house.ask("untrained", HELLO, words.said("Hi."), headers={"x-gateway-train": "false"})
    await finish(house, "untrained")
    for number in range(22):
        await house.send("POST", "/sessions", session_id=f"empty{number}")
        await finish(house, f"empty{number}")
    await answered(house, words, "last")

    rows, cursor, excluded = await page(house)
    assert (rows, [(left["session_id"], left["reason"]) for left in excluded]) == ([], [("untrained", "train_false")])
    rows, cursor, excluded = await page(house, cursor=cursor)
    assert ([row["session_id"] for row in rows], cursor, excluded) == (["last"], None, [])


async def test_sessions_of_one_rollout_come_together_when_the_last_of_them_has_ended(
    house: House, words: Words
) -> None:
    """Its rows are counted over all of them. What is left of one that was freed in part is read again."""
    for session in ("r1", "r2"):
        await house.send("POST", "/sessions", session_id=session, rollout_id="r")
    await answered(house, words, "r2", n=15)
    await answered(house, words, "other")
    assert await pulled(house) == ["other"]
    await answered(house, words, "r1", n=15)

    rows, cursor, _ = await page(house)
    assert [row["session_id"] for row in rows] == ["other", *["r1"] * 15, *["r2"] * 4]
    assert [(row["row_index"], row["n_rows"]) for row in rows[1:]] == [(index, 30) for index in range(19)]
    await house.send("POST", "/trajectories/ack", session_ids=["r1", "other"])

    rows, cursor, _ = await page(house, cursor=cursor)
    assert [(row["session_id"], row["row_index"], row["n_rows"]) for row in rows] == [("r2", i, 15) for i in range(15)]
    assert cursor is None


async def test_a_rollout_ends_without_a_session_that_was_deleted_and_anew_with_one_that_came_later(
    house: House, words: Words
) -> None:
    """Each time behind what had ended before: a reader who waits for it does not miss it."""
    for session in ("r1", "r2", "q1"):
        await house.send("POST", "/sessions", session_id=session, rollout_id=session[0])
    await answered(house, words, "r1", "q1", "other")
    assert await pulled(house) == ["q1", "other"]

    await house.send("DELETE", "/sessions/r2")
    assert await pulled(house) == ["q1", "other", "r1"]

    await house.send("POST", "/sessions", session_id="q2", rollout_id="q")
    assert await pulled(house) == ["other", "r1"]
    assert await pulled(house, "status=open") == ["q1"]
    await finish(house, "q2")
    assert await pulled(house) == ["other", "r1", "q1"]


async def accepted(house: House, media: str, query: str = "") -> bytes:
    """What is read in one answer of a media type."""
    async with house.http.get(f"/trajectories{query}", headers={"Accept": media}) as answer:
        assert (answer.status, answer.content_type) == (200, media)
        return await answer.read()


def columns(written: bytes) -> tuple[list[Json], bytes | None]:
    """The rows of an Arrow stream, what is nested in them still text; and the footer."""
    batches = list(pa.ipc.open_stream(written).iter_batches_with_custom_metadata())
    rows = [row for batch, _ in batches for row in batch.to_pylist()]
    footers = [metadata["gateway.footer"] for _, metadata in batches if metadata]
    return rows, footers[0] if footers else None


async def test_all_rows_come_in_one_answer_as_lines_or_as_columns(house: House, words: Words) -> None:
    """They are the rows of the pages, and the footers say the same."""
    await answered(house, words, "a", "b", n=2)
    await house.ask("b2", HELLO, words.said("Hi."), headers={"x-gateway-train": "false"})
    await finish(house, "b2")

    paged, _, excluded = await page(house)
    *lines, footer = [orjson.loads(line) for line in (await accepted(house, LINES, "?footer=true")).splitlines()]
    rows, column_footer = columns(await accepted(house, COLUMNS, "?footer=true"))

    assert lines == paged
    assert (footer["footer"]["rows"], footer["footer"]["excluded"]) == (4, excluded)
    assert column_footer is not None
    assert orjson.loads(column_footer) == footer["footer"]
    for row, line in zip(rows, lines, strict=True):
        for name in ("token_ids", "loss_mask", "logprobs", "session_id", "n_rows", "reward"):
            assert row[name] == line[name]
        assert orjson.loads(row["certificate"]) == line["certificate"]
        assert row["loss_weights"] is None
    assert columns(await accepted(house, COLUMNS)) == (rows, None)
    assert (await accepted(house, LINES)).count(b"\n") == 4


async def test_one_session_is_to_be_had_as_columns_too(house: House, words: Words) -> None:
    """The forms are the same for both paths."""
    await answered(house, words, "a", n=2, finished=False)

    async with house.http.get("/sessions/a/trajectories", headers={"Accept": COLUMNS}) as answer:
        rows, _ = columns(await answer.read())

    assert [row["token_ids"] for row in rows] == [row["token_ids"] for row in await house.rows("a")]


async def test_without_the_package_columns_are_406_with_the_remedy(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that takes something else as gladly gets that."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet")

    answer = await house.call("GET", "/trajectories", headers={"Accept": COLUMNS})

    assert answer.status == 406
    assert "rollout-gateway[parquet]" in answer.error["message"]
    assert (await house.call("GET", "/trajectories", headers={"Accept": f"{COLUMNS};q=0.5, */*"})).status == 200


@pytest.mark.parametrize(
    ("query", "accept", "param"),
    [
        ("status=closed", "", "status"),
        ("group=g", "", "group"),
        ("status=all&status=open", "", "status"),
        ("cursor=1", "", "cursor"),
        (f"cursor={Cursor(0, '00000000')}", "", "cursor"),
        ("cursor=x", LINES, "cursor"),
        ("footer=true", "", "footer"),
    ],
)
async def test_an_ill_query_is_refused(house: House, query: str, accept: str, param: str) -> None:
    """It names the parameter at fault."""
    answer = await house.call("GET", f"/trajectories?{query}", headers={"Accept": accept} if accept else None)

    assert (answer.status, answer.error["param"]) == (400, param)


async def test_a_cursor_belongs_to_its_query(house: House, words: Words) -> None:
    """With another selection it would point to something else."""
    await answered(house, words, "a", n=21)
    _, cursor, _ = await page(house)

    for query in ("status=all", "group_id=g", "shared=split"):
        answer = await house.send("GET", f"/trajectories?{query}&cursor={cursor}")
        assert (answer.status, answer.error["param"]) == (400, "cursor")


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
