"""What a trainer does who pulls rows, and those whose rows they are."""

from tests.edge.house import HELLO, House, Json, Words

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


async def accepted(house: House, media: str, query: str = "") -> bytes:
    """What is read in one answer of a media type."""
    async with house.http.get(f"/trajectories{query}", headers={"Accept": media}) as answer:
        assert (answer.status, answer.content_type) == (200, media)
        return await answer.read()
