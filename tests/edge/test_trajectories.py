"""A session's rows over HTTP: by selection, of one moment, in the form that is asked for."""

import orjson
import pytest

from gateway.core.fate import Moment
from gateway.sim.keys import CONTROL
from gateway.wire.cursor import Cursor, Place
from gateway.wire.rows_query import decode_query, digest_of
from tests.edge.house import HELLO, House, Json, Words, user

LINES = {"Accept": "application/x-ndjson"}
NOTHING_SAID = decode_query([]).digest


async def read(house: House, session: str, query: str = "") -> Json:
    """One page of rows."""
    answer = await house.send("GET", f"/sessions/{session}/trajectories?{query}")
    assert answer.status == 200, answer.body
    page: Json = answer.body
    return page


async def forked(house: House, words: Words, session: str = "s", n: int = 2) -> list[Json]:
    """A turn, and `n` answers that go on from it; the messages up to the first of these."""
    first = await house.ask(session, HELLO, words.said("Hi."))
    asked = [*HELLO, first.message, user("More.")]
    return [*asked, (await house.ask(session, asked, words.said("Yes."), n=n)).message]


async def test_a_trainer_chooses_its_rows(house: House, words: Words) -> None:
    """Who trains a shared turn is settled among the rows that it gets."""
    messages = await forked(house, words)
    await house.ask("s", [*messages, user("And?")], words.said("No."))
    every, latest = (await read(house, "s"))["data"], (await read(house, "s", "leaves=latest&dropped=exclude"))
    turns = [turn["turn_id"] for turn in await house.turns("s")]

    assert [[turn["trained"] for turn in row["turns"]] for row in every] == [[True, True], [False, True, True]]
    assert [[turn["trained"] for turn in row["turns"]] for row in latest["data"]] == [[True, True, True]]
    assert latest["excluded"] == [
        {"session_id": "s", "turn_id": turns[1], "reason": "dropped", "tokens": len(words.said("Yes."))}
    ]
    split = (await read(house, "s", "shared=split"))["data"]
    assert {weight for row in split for weight in row["loss_weights"]} == {0.0, 0.5, 1.0}
    assert await read(house, "s", "distribution=greedy") == {
        "data": [],
        "next": None,
        "excluded": [
            {
                "session_id": "s",
                "turn_id": turn["turn_id"],
                "reason": "distribution",
                "tokens": turn["completion_tokens"],
            }
            for turn in await house.turns("s")
        ],
    }


async def test_staleness_counts_the_versions_that_were_seen_here(house: House, words: Words) -> None:
    """In any session, and by aborted turns, too."""
    house.sim[CONTROL].version = "v1"
    first = await house.ask("s", HELLO, words.said("Hi."))
    house.sim[CONTROL].version = "v2"
    await house.ask("s", [*HELLO, first.message, user("More.")], words.said("Yes."))
    (row,) = (await read(house, "s", "max_staleness=0"))["data"]
    assert [turn["masked_because"] for turn in row["turns"]] == ["stale", None]
    assert row["certificate"]["selection"]["stale_versions"] == ["v1"]
    house.sim[CONTROL].version = "v3"
    await house.ask("other", HELLO, words.said("Hi."))
    page = await read(house, "s", "max_staleness=0")
    assert [turn["masked_because"] for turn in page["data"][0]["turns"]] == ["stale", "stale"]
    assert [left["reason"] for left in page["excluded"]] == ["stale", "stale"]
    assert (
        sum((await read(house, "s", "max_staleness=2"))["data"][0]["loss_mask"])
        == row["rollout_trainable_tokens"] * 2 - 1
    )


async def test_all_pages_are_of_the_moment_of_the_first(house: House, words: Words) -> None:
    """The session goes on meanwhile; what it does is for the next reading."""
    messages = await forked(house, words, n=25)
    first = await read(house, "s", "shared=split")
    await house.ask("s", [*messages, user("And?")], words.said("No."))
    last = await read(house, "s", f"shared=split&cursor={first['next']}")
    rows = [*first["data"], *last["data"]]

    assert (len(first["data"]), len(rows), last["next"], first["excluded"]) == (20, 25, None, [])
    assert [row["row_index"] for row in rows] == list(range(25))
    assert {row["n_rows"] for row in rows} == {25}
    assert not any(turn["dropped_by_harness"] for row in rows for turn in row["turns"])
    assert any(turn["dropped_by_harness"] for turn in await house.turns("s"))
    for query, told in (
        ("shared=once", "and the parameters of the first page"),
        ("", "and the parameters of the first page"),
    ):
        refused = await house.send("GET", f"/sessions/s/trajectories?{query}&cursor={first['next']}")
        assert (refused.status, refused.error["param"]) == (400, "cursor")
        assert told in refused.error["message"]


async def test_sessions_of_one_rollout_are_counted_together(house: House, words: Words) -> None:
    """Each is read alone; a rollout may be named after its first session."""
    await forked(house, words, "a")
    for session in ("b", "c"):
        await house.send("POST", "/sessions", session_id=session, rollout_id="a", group_id="g")
    await forked(house, words, "c", n=21)
    await house.ask("alone", HELLO, words.said("Hi."))
    one, (two, three) = await read(house, "c"), (await read(house, "a"))["data"]

    assert [row["row_index"] for row in (two, three)] == [0, 1]
    assert [row["row_index"] for row in one["data"]] == list(range(2, 22))
    assert {(row["n_rows"], row["rollout_id"]) for row in (*one["data"], two, three)} == {(23, "a")}
    (total,) = {row["rollout_trainable_tokens"] for row in (*one["data"], two, three)}
    rest = (await read(house, "c", f"cursor={one['next']}"))["data"]
    assert total == sum(sum(row["loss_mask"]) for row in (two, three, *one["data"], *rest))
    assert await read(house, "b") == {"data": [], "next": None, "excluded": []}
    for session in ("a", "alone"):
        other = await house.send("GET", f"/sessions/{session}/trajectories?cursor={one['next']}")
        assert (other.status, "another query" in other.error["message"]) == (400, True)
    assert (await house.send("DELETE", "/sessions/b")).status == 204
    gone = await house.send("GET", f"/sessions/c/trajectories?cursor={one['next']}")
    assert (gone.status, "deleted since the first page" in gone.error["message"]) == (400, True)


async def test_a_row_carries_what_its_session_was_told(house: House, words: Words) -> None:
    """The reward as a float, whatever number it was."""
    await house.send("POST", "/sessions", session_id="s", group_id="g", metadata={"task": 1})
    await house.ask("s", HELLO, words.said("Hi."))
    await house.send("POST", "/sessions/s/finish", reward=1, metadata={"passed": True})
    (row,) = await house.rows("s")
    told = {"session_id": "s", "group_id": "g", "rollout_id": "s", "metadata": {"task": 1, "passed": True}}
    assert {name: row[name] for name in told} == told
    assert orjson.dumps(row["reward"]) == b"1.0"
    assert row["messages"] == [*HELLO, {"role": "assistant", "content": "Hi."}]
    mark = row["certificate"]["renderer"]
    assert mark["name"]
    assert len(mark["template"]) == 64


async def test_lines_are_the_rows_of_all_pages(house: House, words: Words) -> None:
    """With a footer where it is asked for, and else without."""
    await forked(house, words, n=25)
    first = await read(house, "s")
    pages = [*first["data"], *(await read(house, "s", f"cursor={first['next']}"))["data"]]
    plain = await house.call("GET", "/sessions/s/trajectories", headers=LINES)
    closed = await house.call("GET", "/sessions/s/trajectories?footer=true", headers=LINES)

    assert plain.headers["Content-Type"].startswith("application/x-ndjson")
    assert [orjson.loads(line) for line in plain.body.splitlines()] == pages
    *rows, last = map(orjson.loads, closed.body.splitlines())
    assert rows == pages
    assert (last["footer"]["rows"], last["footer"]["excluded"]) == (25, [])


@pytest.mark.parametrize(
    ("query", "accept", "status", "param"),
    [
        ("leaf=latest", "*/*", 400, "leaf"),
        ("shared=all", "*/*", 400, "shared"),
        ("status=finished", "*/*", 400, "status"),
        ("footer=true", "application/json", 400, "footer"),
        ("cursor=AAAAAAA", "application/x-ndjson", 400, "cursor"),
        ("", "text/csv", 406, None),
    ],
)
async def test_what_cannot_be_had_is_refused(house: House, query: str, accept: str, status: int, param: str) -> None:
    """With the parameter at fault; none is left out in silence."""
    await house.ask("s")
    answer = await house.call("GET", f"/sessions/s/trajectories?{query}", headers={"Accept": accept})
    assert (answer.status, answer.error["param"]) == (status, param)


async def test_a_cursor_that_nobody_gave_is_refused(house: House) -> None:
    """Though it looks like one: it names a session that is not there, or one too many."""
    await house.ask("s")
    one, two = (1, Moment(9, 9)), (2, Moment(1, 1))
    for what, digest in (("turns", digest_of(["turns", 1])), ("trajectories", digest_of([NOTHING_SAID, 1]))):
        for within in (None, Place(0, 0, ()), Place(0, 0, (two,)), Place(0, 0, (one, two))):
            answer = await house.send("GET", f"/sessions/s/{what}?cursor={Cursor(1, digest, within)}")
            assert (answer.status, answer.error["param"]) == (400, "cursor")
        more = Cursor(1, digest, Place(0, 0, (one,)))
        assert (await house.send("GET", f"/sessions/s/{what}?cursor={more}")).status == 200
