"""A trainer pulls the rows of many sessions, and misses and doubles none of them."""

import sys

import orjson
import pyarrow as pa
import pytest

from gateway.wire.cursor import Cursor
from tests.edge.house import HELLO, House, Json, OpenHouse, Words, until, user, waiting
from tests.edge.keeping import KeepingStore
from tests.edge.pulling import COLUMNS, LINES, accepted, answered, finish, page, pulled


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


async def test_a_group_is_read_alone(house: House, words: Words) -> None:
    """A selection, too, may be asked for."""
    for session, group in (("a", "g"), ("b", "h"), ("c", "g")):
        await house.send("POST", "/sessions", session_id=session, group_id=group)
    await answered(house, words, "a", "b", "c")
    await answered(house, words, "d", n=2)

    assert await pulled(house, "group_id=g") == ["a", "c"]
    assert await pulled(house, "group_id=nobody") == []
    assert await pulled(house, "leaves=latest") == ["a", "b", "c", "d"]


@pytest.mark.parametrize("number", [1e22, sys.float_info.max, 2.0**64, -1e300, 1.0])
async def test_a_tool_schema_of_large_numbers_stands_in_no_pulls_way(house: House, words: Words, number: float) -> None:
    """And its numbers and their order are as they were sent."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "number", "maximum": number}}}
    assert (await house.ask("s", HELLO, words.said("Hi."), tools=[tool])).status == 200
    await finish(house, "s")
    await answered(house, words, "behind")

    rows, _, _ = await page(house)
    assert [row["session_id"] for row in rows] == ["s", "behind"]
    assert repr(rows[0]["tools"]) == repr([tool])
    assert (await accepted(house, COLUMNS)).count(b"maximum") == 1


async def test_a_group_is_read_with_all_sessions_of_its_rollouts(house: House, words: Words) -> None:
    """So that what rows say of their rollout is said of what is read: the same as without a group."""
    for session, group in (("r1", "g"), ("r2", "h"), ("r3", None)):
        await house.send("POST", "/sessions", session_id=session, rollout_id="r", group_id=group)
    await house.send("POST", "/sessions", session_id="other", group_id="h")
    await house.ask("r2", HELLO, words.said("Hi."), headers={"x-gateway-train": "false"})
    await answered(house, words, "r1", "r2", "r3", n=2)

    (rows, _, excluded), (every, _, left) = await page(house, "group_id=g"), await page(house)
    assert rows == every
    assert {row["n_rows"] for row in rows} == {len(rows)} == {6}
    assert excluded == left
    assert [one["session_id"] for one in excluded] == ["r2"]
    await finish(house, "other")
    assert {row["session_id"] for row in (await page(house, "group_id=h"))[0]} == {"r1", "r2", "r3"}


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


def columns(written: bytes) -> tuple[list[Json], bytes | None]:
    """The rows of an Arrow stream, what is nested in them still text; and the footer."""
    batches = list(pa.ipc.open_stream(written).iter_batches_with_custom_metadata())
    rows = [row for batch, _ in batches for row in batch.to_pylist()]
    footers = [metadata["gateway.footer"] for _, metadata in batches if metadata]
    return rows, footers[0] if footers else None


async def test_all_rows_come_in_one_answer_as_lines_or_as_columns(
    house: House, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the rows of the pages, and the footers say the same; however few sessions are looked at in one go."""
    monkeypatch.setattr("gateway.edge.pull._AT_ONCE", 2)
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
