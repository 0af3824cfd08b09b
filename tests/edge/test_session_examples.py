"""Each example of ``docs/sessions.md`` is played, and its picture is drawn from what the gateway answers."""

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.core.canon import DIFFERENCES
from gateway.core.reason import Reason
from tests.edge.house import TOOLS, Answer, House, Json, Words, until, user, waiting

PAGE = (Path(__file__).parents[2] / "docs" / "sessions.md").read_text()
SECTIONS = [section.partition("\n") for section in PAGE.split("\n## ")[1:]]
PICTURES = {title: text.split("```\n")[1] for title, _, text in SECTIONS if "```\n" in text and "```json" not in text}
TEXTS = {title: text for title, _, text in SECTIONS}
SYSTEM = {"role": "system", "content": "You help with code."}


class Talk:
    """An agent in one session."""

    def __init__(self, house: House, words: Words) -> None:
        self.house = house
        self.words = words

    async def answer(self, messages: list[Json], text: str = "Done.", **fields: Any) -> Answer:
        """Take a turn."""
        answer = await self.house.ask("s", messages, self.words.said(text), **fields)
        assert answer.status == 200
        return answer

    async def on(self, messages: list[Json], text: str = "Done.", ask: str = "Go on.", **fields: Any) -> list[Json]:
        """Take a turn, and go on from it."""
        return [*messages, (await self.answer(messages, text, **fields)).message, user(ask)]


async def conversation(talk: Talk) -> None:
    """Three turns."""
    messages = [SYSTEM, user("Fix the test.")]
    for _ in range(3):
        messages = await talk.on(messages)


async def retry(talk: Talk) -> None:
    """The second call is sent twice, the second time marked."""
    messages = await talk.on([SYSTEM, user("Fix the test.")])
    first = await talk.answer(messages)
    again = await talk.answer(messages, headers={"x-stainless-retry-count": "1"})
    assert again.headers["x-gateway-replayed"] == "true"
    assert (again.headers["x-turn-id"], again.message) == (first.headers["x-turn-id"], first.message)
    assert len(talk.house.journal) == 2
    assert await talk.house.metric("gateway_retries_total", outcome="replayed") == 1


async def resample(talk: Talk) -> None:
    """The second call is sent twice, and the second answer kept."""
    messages = await talk.on([SYSTEM, user("Fix the test.")])
    await talk.answer(messages, "This way.")
    await talk.on(await talk.on(messages, "That way."))


async def branch(talk: Talk) -> None:
    """Back to the first answer."""
    first = await talk.on([SYSTEM, user("Fix the test.")])
    await talk.on(await talk.on(first))
    await talk.on([*first[:-1], user("Or rather stop.")])


async def sub_agent(talk: Talk) -> None:
    """It starts from the main agent's history, which goes on after it."""
    agent: Json = {"headers": {"x-gateway-tag": "agent=search"}, "tools": TOOLS}
    main = await talk.on([SYSTEM, user("Fix the test.")], "Let me have it searched.")
    await talk.on(await talk.on([*main[:-1], user("Search.")], **agent), **agent)
    await talk.on(main)


async def compaction(talk: Talk) -> None:
    """A summary, and a new beginning with it."""
    first = await talk.on([SYSTEM, user("Fix the test.")], ask="Summarise what was done.")
    summary = await talk.answer(first, "The test was fixed.")
    await talk.on(await talk.on([SYSTEM, user(f"So far: {summary.message['content']}")]))


async def edited(talk: Talk) -> None:
    """The first message changes."""
    first = await talk.on(await talk.on([SYSTEM, user("Fix the test. Remember the format.")]))
    await talk.on(await talk.on([SYSTEM, user("Fix the test."), *first[2:]]))


async def dropped(talk: Talk) -> None:
    """A complaint in place of the answer."""
    first = await talk.on([SYSTEM, user("Fix the test.")])
    await talk.answer(first, "not what was asked for")
    await talk.on([*first, user("Use the format.")])


async def title(talk: Talk) -> None:
    """A call on the side that comes first."""
    side = [{"role": "system", "content": "Make a title."}, user("Fix the test.")]
    await talk.answer(side, headers={"x-gateway-train": "false"})
    await talk.on(await talk.on([SYSTEM, user("Fix the test.")]))


async def hang_up(talk: Talk) -> None:
    """The second call is left in the middle, and made again."""
    messages = await talk.on([SYSTEM, user("Fix the test.")])
    talk.house.faults.inject("stall", after=2)
    async with waiting(talk.house, "s", messages, talk.words.said("A long answer.")):
        await until(lambda: len(talk.house.journal) == 2 and len(talk.house.journal[1].emitted) == 2)
    await talk.house.idle()
    await talk.answer(messages)


EXAMPLES: dict[str, Callable[[Talk], Awaitable[None]]] = {
    "A conversation": conversation,
    "A retry": retry,
    "A resample": resample,
    "A branch": branch,
    "A sub-agent": sub_agent,
    "A compaction": compaction,
    "An edited history": edited,
    "A dropped answer": dropped,
    "A title call": title,
    "A client that hangs up": hang_up,
}


def drawn(turns: list[Json], rows: list[Json]) -> str:
    """The picture of a forest."""
    names = {turn["turn_id"]: f"t{number}" for number, turn in enumerate(turns, 1)}

    def said(turn: Json) -> str:
        reason = f": {turn['reason']}" if turn["reason"] else ""
        marks = [
            *(["aborted"] if turn["status"] == "aborted" else []),
            *(["dropped_by_harness"] if turn["dropped_by_harness"] and turn["status"] == "complete" else []),
            *(f"{name}={value}" for name, value in turn["tags"].items()),
            *([] if turn["train"] else ["train=false"]),
        ]
        return ", ".join([f"{names[turn['turn_id']]}  {turn['how']}{reason}", *marks])

    def below(parent: str | None, indent: str) -> list[str]:
        children = [turn for turn in turns if turn["parent_id"] == parent]
        lines = []
        for child in children:
            last = child is children[-1]
            mark, deeper = ("", "") if parent is None else ("└─ ", "   ") if last else ("├─ ", "│  ")
            lines += [indent + mark + said(child), *below(child["turn_id"], indent + deeper)]
        return lines

    def told(row: Json) -> str:
        return " ".join(
            names[part["turn_id"]] if part["trained"] else f"({names[part['turn_id']]})" for part in row["turns"]
        )

    return "\n".join([*below(None, ""), "rows: " + " | ".join(map(told, rows))]) + "\n"


def test_every_picture_of_the_page_is_played():
    """And every play has its picture."""
    assert EXAMPLES.keys() == PICTURES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
async def test_the_page_shows_what_happens(house: House, words: Words, name: str) -> None:
    """Line by line."""
    await EXAMPLES[name](Talk(house, words))

    assert drawn(await house.turns("s"), await house.rows("s")) == PICTURES[name]


def rows_of_table(text: str, head: str) -> list[str]:
    """The first column of the table that begins with `head`."""
    table = text.split(f"| {head} |")[1].split("\n\n", maxsplit=1)[0]
    return re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE)


def test_the_page_names_every_difference_and_every_reason() -> None:
    """In the order in which the code has them."""
    assert rows_of_table(TEXTS["Matching"], "difference") == list(DIFFERENCES)
    assert rows_of_table(TEXTS["Matching"], "reason") == [str(reason) for reason in Reason]


async def test_the_session_of_the_page_can_be_made(house: House, words: Words) -> None:
    """As it stands there; its agent is bound by it, and finishing it is in its rows."""
    body = TEXTS["Its life"].split("```json\n")[1].split("```")[0]
    made = await house.call("POST", "/sessions", data=body.encode())
    assert made.status == 201
    session = made.body["session_id"]
    await house.ask(session, [user("Hello?")], words.said("Hi."), max_tokens=9, temperature=0.5)
    await house.call("POST", f"/sessions/{session}/finish", data=b'{"reward": 1.0}')

    sent = house.params[-1]
    assert (sent["temperature"], sent["top_p"], sent["max_tokens"]) == (0.5, 1.0, 4096)
    (row,) = await house.rows(session)
    assert (row["session_id"], row["group_id"], row["reward"]) == (session, "task-17", 1.0)
    assert (await house.ask(session)).status == 409


async def test_the_commands_of_the_page_work(house: House, words: Words) -> None:
    """As they stand there but for the address."""
    text = TEXTS["Its life"]
    made = text.split("```json\n")[1].split("```")[0]
    await house.call("POST", "/sessions", data=made.encode())
    commands = text.split("```bash\n")[1].split("```")[0].splitlines()
    address = str(house.http.make_url("")).rstrip("/")

    printed = []
    for command in commands:
        line = shlex.split(command.replace("http://127.0.0.1:8080", address))
        process = await asyncio.create_subprocess_exec(*line, "--silent", "--fail", stdout=asyncio.subprocess.PIPE)
        printed.append((await process.communicate())[0])
        assert process.returncode == 0

    listed, shown, finished, deleted = printed
    assert orjson.loads(listed)["data"] == [orjson.loads(shown)]
    state = orjson.loads(finished)
    assert (state["status"], state["reward"], state["turns_in_flight"]) == ("finished", 1.0, 0)
    assert state["metadata"] == {"dataset": "train", "passed": True}
    assert deleted == b""
    assert (await house.send("GET", "/sessions")).body["data"] == []
