"""`gateway sessions export` from a running gateway."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from aiohttp import web
from pyarrow import parquet
from typer.testing import CliRunner

from gateway.cli import cli
from gateway.export.command import export
from tests.edge.house import HELLO, House, OpenHouse, Words, serving
from tests.edge.routes import KEYS


async def run(house: House | str, out: Path, **flags: Any) -> int:
    """The exit status."""
    url = house if isinstance(house, str) else str(house.http.make_url("/"))

    def called() -> int:
        try:
            export(gateway=url, out=out, **flags)
        except SystemExit as ended:
            return int(ended.code or 0)
        return 0

    status = await asyncio.to_thread(called)
    assert [path.name for path in out.parent.iterdir() if path != out] == []
    return status


@pytest.fixture
async def played(house: House, words: Words) -> House:
    """Two finished sessions with two rows each, and an open one."""
    for session in ("a/1", "b", "open"):
        await house.send("POST", "/sessions", session_id=session, group_id=session[0])
        await house.ask(session, HELLO, words.said("Hi."), n=2)
    for session in ("a/1", "b"):
        await house.send("POST", f"/sessions/{session}/finish", reward=1)
    return house


async def lines(house: House, query: str) -> list[Any]:
    """What the gateway itself says."""
    answer = await house.call("GET", query, headers={"Accept": "application/x-ndjson"})
    return [orjson.loads(line) for line in answer.body.splitlines()]


async def test_the_rows_of_finished_sessions_become_a_file_with_its_footer(
    played: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever was there before is replaced; standard error says how many rows there are."""
    out = tmp_path / "rows.ndjson"
    out.write_text("old")

    assert await run(played, out) == 0

    written = [orjson.loads(line) for line in out.read_bytes().splitlines()]
    assert written == await lines(played, "/trajectories?footer=true")
    assert [row["session_id"] for row in written[:-1]] == ["a/1", "a/1", "b", "b"]
    assert f"4 rows in {out}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "query"),
    [
        ({"session": "a/1"}, "/sessions/a/1/trajectories?footer=true"),
        ({"group": "o", "status": "open"}, "/trajectories?footer=true&group_id=o&status=open"),
        (
            {"leaves": "latest", "shared": "split", "arrays": "base64"},
            "/trajectories?footer=true&leaves=latest&shared=split&arrays=base64",
        ),
    ],
)
async def test_flags_choose_which_rows(played: House, tmp_path: Path, flags: Any, query: str) -> None:
    """They are the parameters of the route."""
    out = tmp_path / "rows.ndjson"

    assert await run(played, out, **flags) == 0

    written = [orjson.loads(line) for line in out.read_bytes().splitlines()]
    assert len(written) > 1
    assert written == await lines(played, query)


async def test_the_suffix_chooses_the_form(played: House, tmp_path: Path) -> None:
    """Columns hold the same rows, and carry the footer."""
    *rows, footer = await lines(played, "/trajectories?footer=true")
    for suffix in ("parquet", "arrow"):
        (tmp_path / suffix).mkdir()
        out = tmp_path / suffix / f"rows.{suffix}"

        assert await run(played, out) == 0

        if suffix == "parquet":
            table = parquet.read_table(out)
            told = parquet.read_metadata(out).metadata[b"gateway.footer"]
        else:
            batches = list(pa.ipc.open_stream(out.read_bytes()).iter_batches_with_custom_metadata())
            table, told = pa.Table.from_batches([batch for batch, _ in batches]), batches[-1][1]["gateway.footer"]
        assert [row["token_ids"] for row in table.to_pylist()] == [row["token_ids"] for row in rows]
        assert orjson.loads(told) == footer["footer"]


async def test_a_gateway_without_rows_makes_a_file_without_rows(house: House, tmp_path: Path) -> None:
    """Which has its columns all the same."""
    out = tmp_path / "rows.parquet"

    assert await run(house, out) == 0
    assert parquet.read_table(out).num_rows == 0


async def test_what_is_refused_is_exit_1_in_the_gateways_words(
    open_house: OpenHouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written, and what was there stays."""
    house, out = await open_house(**KEYS), tmp_path / "rows.ndjson"
    out.write_text("old")

    for flags, says in (
        ({}, "(401): no valid key"),
        ({"key": KEYS["agent_key"]}, "(403): an agent's key"),
        ({"key": KEYS["admin_key"], "shared": "thrice"}, "(400): shared must be once or split or duplicate"),
        ({"key": KEYS["admin_key"], "session": "nobody"}, "(404): no session 'nobody'"),
    ):
        assert await run(house, out, **flags) == 1
        assert says in capsys.readouterr().err
    assert out.read_text() == "old"
    assert (await house.send("GET", "/health")).status == 200
    assert await run(house, out, key=KEYS["admin_key"]) == 0


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "broke off"),
        (b'{"row_id":"a"}\n', "broke off"),
        (b'{"footer":{"rows":0}}', "broke off"),
        (b'{"row_id":"a"}\n{"footer":{"rows":2}}\n', "broke off"),
        (b"[]\n", "broke off"),
        (b"row\n", "cannot be read"),
    ],
)
async def test_what_breaks_off_is_no_file(
    tmp_path: Path, body: bytes, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The footer is missing, or counts more than came."""

    async def broken(_request: web.Request) -> web.Response:
        return web.Response(body=body)

    app = web.Application()
    app.router.add_get("/trajectories", broken)
    async with serving(app) as server:
        assert await run(str(server.make_url("")), tmp_path / "rows.ndjson") == 1

    assert says in capsys.readouterr().err
    assert not (tmp_path / "rows.ndjson").exists()


async def test_who_is_no_gateway_or_is_not_there_is_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And is named."""
    async with serving(web.Application()) as server:
        url = str(server.make_url(""))
        assert await run(url, tmp_path / "rows.ndjson") == 1
        assert "no gateway answered" in capsys.readouterr().err
    assert await run(url, tmp_path / "rows.ndjson") == 1
    assert url.rstrip("/") in capsys.readouterr().err


ILL_URLS = ("nonsense", "127.0.0.1:8080", "ftp://gateway", "http://", "http://gateway:port", "http://[gateway")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--out", "rows.csv"], ".ndjson, .parquet or .arrow"),
        (["--out", "/nowhere/rows.ndjson"], "/nowhere"),
        (["--out", "rows.ndjson", "--session", "s", "--group", "g"], "--session"),
        *((["--out", "rows.ndjson", "--gateway", url], f"--gateway {url!r} is no URL") for url in ILL_URLS),
    ],
)
def test_ill_flags_are_exit_2(args: list[str], says: str) -> None:
    """Before anything is asked."""
    done = CliRunner().invoke(cli, ["sessions", "export", "--gateway", "http://127.0.0.1:9", *args])

    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert says in done.stderr


async def test_experts_come_in_the_form_that_is_asked_for(open_house: OpenHouse, tmp_path: Path) -> None:
    """As the gateway itself says them."""
    house = await open_house(sim={"routed_experts": (2, 4)}, side_arrays=("routed_experts",))
    await house.ask("s")

    assert await run(house, tmp_path / "rows.ndjson", session="s", routed_experts="base85") == 0

    row = orjson.loads((tmp_path / "rows.ndjson").read_bytes().splitlines()[0])
    assert row["side_arrays"]["routed_experts"].keys() == {"data", "shape", "dtype", "start"}
