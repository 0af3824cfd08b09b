"""`gateway engines` on a running gateway."""

import asyncio

import orjson
import pytest
from aiohttp import web
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from gateway.cli import cli
from gateway.sim import create_sim
from tests.edge.house import House, OpenHouse, serving


async def run(house: House | str, *words: str) -> Result:
    """What a command says, and its exit status."""
    url = house if isinstance(house, str) else str(house.http.make_url("/"))
    arguments = ["engines", words[0], "--gateway", url, *words[1:]]
    with capture_logs():  # of the gateway, which is in this process, too
        return await asyncio.to_thread(CliRunner().invoke, cli, arguments, env={"COLUMNS": "200"})


async def test_engines_come_and_go_by_command(open_house: OpenHouse) -> None:
    """Each command says what it did; `ls` shows a line for each rank."""
    house = await open_house(engine=())
    async with serving(create_sim(ranks=2)) as server:
        url = str(server.make_url("")).rstrip("/")
        added = await run(house, "add", url)
        assert (added.exit_code, added.stdout) == (0, "")
        assert f"{url} is there, ranks: 2" in added.stderr
        drained = await run(house, "drain", url, "--rank", "1")
        assert f"{url}#1 gets no new turns" in drained.stderr
        lines = (await run(house, "ls")).stdout.splitlines()
        assert len(lines) == 3
        assert lines[1].split()[:3] == [url, "0", "up"]
        assert "(draining)" in lines[2]
        back = await run(house, "drain", url, "--back")
        assert f"{url} gets turns again" in back.stderr
        gone = await run(house, "rm", url)
        assert f"{url} is removed" in gone.stderr
        await house.http.close()


async def test_what_does_not_answer_is_said(open_house: OpenHouse) -> None:
    """By `add`, and by `ls`."""
    house = await open_house(engine=())
    added = await run(house, "add", "http://127.0.0.1:1")
    assert added.exit_code == 0
    assert "does not answer so far" in added.stderr
    listed = await run(house, "ls")
    assert "http://127.0.0.1:1 does not answer" in listed.stdout
    assert "down" in listed.stdout


async def test_scripts_get_what_the_gateway_answers(house: House) -> None:
    """From each command, as JSON on standard output."""
    listed = await run(house, "ls", "--json")
    (one,) = orjson.loads(listed.stdout)["data"]
    for words, name in ((("add", one["url"]), "url"), (("drain", one["url"]), "url"), (("rm", one["url"]), "removed")):
        answer = await run(house, *words, "--json")
        assert orjson.loads(answer.stdout)[name] in (one["url"], True)


async def test_a_refusal_is_exit_1_with_the_gateways_words(open_house: OpenHouse) -> None:
    """And nothing on standard output."""
    house = await open_house(admin_key="boss")
    for words, says in (
        (("ls",), "no valid key"),
        (("rm", "http://e", "--key", "boss"), "no engine here has the URL"),
        (("add", "nonsense", "--key", "boss"), "url must be like"),
    ):
        refused = await run(house, *words)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert says in refused.stderr


async def test_what_is_no_gateway_is_said_to_be_none() -> None:
    """It may be nothing at all, or something else; a URL that is none is exit 2."""
    assert "cannot be reached" in (await run("http://127.0.0.1:1", "ls")).stderr
    async with serving(web.Application()) as server:
        other = await run(str(server.make_url("/")), "ls")
        assert (other.exit_code, "no gateway answered" in other.stderr) == (1, True)


async def test_what_another_server_says_is_one_line() -> None:
    """Be it a page."""

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="<html>\n  <p>moved</p>\n</html>", status=418)

    app = web.Application()
    app.router.add_get("/admin/engines", page)
    async with serving(app) as server:
        other = await run(str(server.make_url("/")), "ls")
    assert (other.exit_code, other.stderr.count("\n")) == (1, 1)
    assert "refuses (418)" in other.stderr
    assert "<html> <p>moved</p> </html>" in other.stderr


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "ftp://e",
        "http://e:99999",
        "http://e:0",
        "http://user:pw@e",
        "http://.",
        "http://[::1",
        "http://e\n",
    ],
)
async def test_a_url_of_no_gateway_is_exit_2(url: str) -> None:
    """Before anything is asked."""
    refused = await run(url, "ls")
    assert refused.exit_code == 2
    assert "give http://host:port" in refused.stderr


async def test_a_key_that_cannot_be_sent_is_exit_2(house: House) -> None:
    """One line says so, without the key."""
    refused = await run(house, "ls", "--key", "secret\n")
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "--key has characters" in refused.stderr
    assert "secret" not in refused.stderr
