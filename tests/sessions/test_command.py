"""`gateway sessions` on a running gateway."""

import asyncio

import orjson
import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from gateway.cli import cli
from tests.edge.house import HELLO, House, OpenHouse, Words


async def run(house: House | str, *words: str, **variables: str) -> Result:
    """What a command says, and its exit status."""
    url = house if isinstance(house, str) else str(house.http.make_url("/"))
    arguments = ["sessions", words[0], "--gateway", url, *words[1:]]
    environment = {"COLUMNS": "200", **variables}
    with capture_logs():  # of the gateway, which is in this process, too
        return await asyncio.to_thread(CliRunner().invoke, cli, arguments, env=environment)


async def test_sessions_are_listed_shown_finished_and_deleted(house: House, words: Words) -> None:
    """A line for each, in their order; what was done is said on standard error."""
    await house.send("POST", "/sessions", session_id="made", group_id="g", metadata={"a": 1}, budget={"max_turns": 3})
    assert (await house.ask("a/b", HELLO, words.said("Hi."))).status == 200

    first, *lines = (await run(house, "ls")).stdout.splitlines()
    assert first.split()[:4] == ["session", "group", "status", "reward"]
    assert [line.split()[:3] for line in lines] == [["made", "g", "open"], ["a/b", "open", "1"]]
    assert [line.split()[0] for line in (await run(house, "ls", "--group", "g")).stdout.splitlines()[1:]] == ["made"]

    done = await run(house, "finish", "a/b", "--reward", "0.5", "--metadata", '{"passed": true}')
    assert (done.exit_code, done.stdout) == (0, "")
    assert "a/b is finished: reward 0.5, turns 1, in flight 0" in done.stderr
    shown = dict(line.strip().split(maxsplit=1) for line in (await run(house, "show", "a/b")).stdout.splitlines())
    assert (shown["status"], shown["reward"], shown["metadata"]) == ("finished", "0.5", '{"passed":true}')
    assert "budget" not in shown

    gone = await run(house, "rm", "a/b", "made")
    assert gone.stderr.splitlines() == [f"gateway sessions rm: {name} is deleted" for name in ("a/b", "made")]
    assert len((await run(house, "ls")).stdout.splitlines()) == 1


async def test_scripts_get_what_the_gateway_answers(house: House) -> None:
    """From each command that is told something, as JSON on standard output."""
    for name in ("a", "b", "c"):
        await house.send("POST", "/sessions", session_id=name)

    listed = orjson.loads((await run(house, "ls", "--json", "--limit", "2")).stdout)
    finished = orjson.loads((await run(house, "finish", "a", "--json")).stdout)
    shown = orjson.loads((await run(house, "show", "a", "--json")).stdout)

    assert [session["session_id"] for session in listed["data"]] == ["a", "b"]
    assert listed["next"] is not None
    assert finished == shown == await house.shown("a")


async def test_all_pages_are_listed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are."""
    monkeypatch.setattr("gateway.sessions.command._PAGE_SESSIONS", 2)
    for number in range(5):
        await house.send("POST", "/sessions", session_id=f"s{number}")

    listed = orjson.loads((await run(house, "ls", "--json")).stdout)

    assert [session["session_id"] for session in listed["data"]] == [f"s{number}" for number in range(5)]
    assert listed["next"] is None


async def test_a_key_comes_from_a_flag_or_the_environment(open_house: OpenHouse) -> None:
    """And without one it is refused: exit 1, with the gateway's words."""
    house = await open_house(admin_key="boss")

    refused = await run(house, "ls")

    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "no valid key" in refused.stderr
    assert (await run(house, "ls", "--key", "boss")).exit_code == 0
    assert (await run(house, "ls", GATEWAY_ADMIN_KEY="boss")).exit_code == 0


async def test_what_is_not_there_is_exit_1(house: House) -> None:
    """Whatever was to be done with it."""
    for command in ("show", "finish", "rm"):
        refused = await run(house, command, "nobody")
        assert refused.exit_code == 1
        assert f"gateway sessions {command}: " in refused.stderr
        assert "nobody" in refused.stderr
    assert "cannot be reached" in (await run("http://127.0.0.1:1", "ls")).stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["show", ".."], "cannot be a session id"),
        (["rm", "good", "a/turns"], "cannot be a session id"),
        (["finish", "s", "--metadata", "{"], "--metadata is no JSON"),
        (["finish", "s", "--metadata", "[]"], "--metadata must be a JSON object"),
        (["ls", "--key", "hush\n"], "--key has characters"),
    ],
)
async def test_what_cannot_be_asked_is_exit_2_and_one_line(house: House, words: list[str], says: str) -> None:
    """And nothing has happened."""
    await house.send("POST", "/sessions", session_id="good")

    refused = await run(house, *words)

    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert says in refused.stderr
    assert "hush" not in refused.stderr
    assert (await house.shown("good"))["status"] == "open"
