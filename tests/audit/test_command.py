"""`gateway audit`: rows of a gateway, scored by the engine that sampled them or by another."""

import asyncio
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from pyarrow import ipc, parquet

from gateway.audit.command import audit
from gateway.export.command import export
from gateway.sim import FAULTS, JOURNAL, create_sim, logprob
from gateway.verify.command import verify
from tests.edge.house import HELLO, House, OpenHouse, serving, user


async def run(call: Any, **flags: Any) -> int:
    """The exit status of a command."""

    def called() -> int:
        try:
            call(**flags)
        except SystemExit as ended:
            return int(ended.code or 0)
        return 0

    return await asyncio.to_thread(called)


class Audited:
    """A gateway with two sessions, one of which has a turn at temperature 0.7 and one that is truncated."""

    def __init__(self, house: House, engine: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.house, self.engine, self.folder, self._capsys = house, engine, folder, capsys
        self.error = ""

    async def exported(self, name: str, **flags: Any) -> Path:
        """The rows as a file."""
        url, out = str(self.house.http.make_url("/")), self.folder / name
        assert (
            await run(export, gateway=url, out=out, **({} if "session" in flags else {"status": "all"}), **flags) == 0
        )
        return out

    async def audit(self, file: Path, **flags: Any) -> tuple[int, Any]:
        """The exit status and the report."""
        self._capsys.readouterr()
        status = await run(audit, **{"file": file, "engine": [self.engine], "as_json": True} | flags)
        out, self.error = self._capsys.readouterr()
        return status, orjson.loads(out) if out.startswith("{") else out


@pytest.fixture
async def audited(open_house: OpenHouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Audited:
    """Four rows: the engine says four ids, whatever it is asked."""
    house = await open_house(sim={"max_model_len": 2048})
    first = await house.ask("a", HELLO, temperature=1)
    await house.ask("a", [*HELLO, first.message, user("Sure?")], temperature=0.7)
    await house.ask("b", HELLO, temperature=1, n=2)
    await house.ask("b", HELLO, top_p=0.5)
    engine = (await house.turns("a"))[0]["engine"]
    return Audited(house, engine, tmp_path, capsys)


SAMPLED: dict[str, Any] = {"compared": 3 * 4, "apart": {"temperature": 4, "truncated": 4}}


@pytest.mark.parametrize("name", ["rows.ndjson", "rows.parquet", "rows.arrow", "page.json"])
async def test_what_the_engine_sampled_it_scores_alike_whatever_the_form_of_the_file(
    audited: Audited, name: str
) -> None:
    """No gap over the ids that can be compared; turns sampled otherwise are counted apart."""
    if name == "page.json":
        file = audited.folder / name
        file.write_bytes(orjson.dumps((await audited.house.send("GET", "/trajectories?status=all")).body))
    else:
        file = await audited.exported(name)

    status, report = await audited.audit(file, max_gap=0.0)

    assert (status, audited.error) == (0, "")
    whole = report["all"]
    assert {name: whole[name] for name in SAMPLED} == SAMPLED
    assert (whole["rows"], whole["mean_gap_nats"], whole["max_gap_nats"], whole["kl_nats"], whole["troubled"]) == (
        4,
        0.0,
        0.0,
        0.0,
        0,
    )
    assert [row["engine"] for row in report["rows"]] == [f"{audited.engine}#0"] * 4


@pytest.mark.parametrize("arrays", ["json", "base64"])
async def test_a_logprob_that_was_not_the_engines_is_found_at_its_place(audited: Audited, arrays: str) -> None:
    """Half a nat in the last row that is compared."""
    file = await audited.exported("rows.ndjson", arrays=arrays)
    lines = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    row = lines[1]
    at = row["turns"][-1]["start"] + 1
    if arrays == "json":
        row["logprobs"][at] -= 0.5
    else:
        values = np.frombuffer(b64decode(row["logprobs"]["base64"]), "<f4").copy()
        values[at] -= 0.5
        row["logprobs"]["base64"] = b64encode(values.tobytes()).decode()
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))

    status, report = await audited.audit(file, max_gap=0.1)
    lax, text = await audited.audit(file, max_gap=0.6, as_json=False)

    assert (status, lax) == (1, 0)
    whole = report["all"]
    assert (whole["max_row_id"], whole["max_position"]) == (row["row_id"], at)
    assert whole["max_gap_nats"] == pytest.approx(0.5, abs=1e-5)
    assert whole["mean_gap_nats"] == pytest.approx(0.5 / SAMPLED["compared"], abs=1e-5)
    assert f"max |gap| 0.5 (position {at})" in text
    assert "not compared: 4 ids of turns that were sampled at another temperature than 1" in text


@pytest.mark.parametrize("name", ["out.ndjson", "out.parquet", "out.arrow"])
async def test_a_teachers_scores_ride_in_the_rows(audited: Audited, name: str) -> None:
    """With every other field and the footer as they were, so that the file still verifies."""
    file = await audited.exported("rows.ndjson")
    before = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    teacher = create_sim(model="teacher")
    async with serving(teacher) as server:
        flags: dict[str, Any] = {
            "teacher": [str(server.make_url(""))],
            "teacher_model": "teacher",
            "out": audited.folder / name,
        }
        status, report = await audited.audit(file, **flags)

    assert (status, report["all"]["max_gap_nats"]) == (0, 0.0)
    assert await run(verify, file=flags["out"]) == 0
    assert len(teacher[JOURNAL].entries) == 4
    if name == "out.ndjson":
        *rows, footer = [orjson.loads(line) for line in flags["out"].read_bytes().splitlines()]
        assert footer == before[-1]
        assert [{k: v for k, v in row.items() if k != "teacher_logprobs"} for row in rows] == before[:-1]
    elif name == "out.parquet":
        table = parquet.read_table(flags["out"])
        assert parquet.ParquetFile(flags["out"]).metadata.metadata[b"gateway.footer"]
        rows = table.to_pylist()
    else:
        rows = ipc.open_stream(flags["out"]).read_all().to_pylist()
    for row, was in zip(rows, before[:-1], strict=True):
        ids = was["token_ids"]
        assert row["teacher_logprobs"] == [0.0, *(logprob(at, ids[at]) for at in range(1, len(ids)))]


async def test_scores_are_written_in_the_form_of_the_rows_other_arrays(audited: Audited) -> None:
    """Little-endian bytes in base64."""
    file = await audited.exported("rows.ndjson", arrays="base64")
    out = audited.folder / "out.ndjson"
    assert (await audited.audit(file, teacher=[audited.engine], out=out))[0] == 0

    row = orjson.loads(out.read_bytes().splitlines()[0])
    assert row["teacher_logprobs"]["dtype"] == "<f4"
    assert row["teacher_logprobs"]["shape"] == row["token_ids"]["shape"]


async def test_a_row_that_cannot_be_scored_is_reported_and_is_no_small_gap(audited: Audited) -> None:
    """It is longer than this engine's context; the others are scored."""
    file = await audited.exported("rows.ndjson")
    shortest = min(len(orjson.loads(line)["token_ids"]) for line in file.read_bytes().splitlines()[:-1])
    async with serving(create_sim(max_model_len=shortest)) as server:
        flags = {"engine": [str(server.make_url(""))]}
        status, report = await audited.audit(file, **flags)
        strict, _ = await audited.audit(file, **flags, max_gap=9.0)
        _, text = await audited.audit(file, **flags, as_json=False)

    assert (status, strict, report["all"]["max_gap_nats"]) == (1, 1, 0.0)
    assert 0 < report["all"]["troubled"] < 4
    assert "the model's context holds" in text
    assert "of them not wholly scored" in text


async def test_an_engine_that_cannot_tell_the_last_of_a_full_context_says_so(audited: Audited) -> None:
    """Before vLLM 0.22 every alternative carried the sampled id."""
    file = await audited.exported("rows.ndjson", session="a")
    row = orjson.loads(file.read_bytes().splitlines()[0])
    length = len(row["token_ids"])
    async with serving(create_sim(max_model_len=length, version="0.20.2")) as server:
        url, out = str(server.make_url("")), audited.folder / "out.ndjson"
        _, report = await audited.audit(file, engine=[url], teacher=[url], out=out)

    assert report["rows"][0]["trouble"] == "; ".join(
        f"{who}: it names no logprob of position {length - 1}, with which its context ends"
        for who in ("engine", "teacher")
    )
    assert orjson.loads(out.read_bytes().splitlines()[0])["teacher_logprobs"] is None


async def test_an_engine_that_is_busy_for_a_moment_is_asked_again(audited: Audited) -> None:
    """Hours of scoring are not given up for it."""
    file = await audited.exported("rows.ndjson")
    audited.house.sim[FAULTS].inject("error_503", times=2)

    status, report = await audited.audit(file, max_gap=0.0)

    assert (status, report["all"]["compared"]) == (0, SAMPLED["compared"])


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (None, "No such file"),
        (b"nothing", "rows"),
        (b"4", "neither rows"),
        (b'{"row_id": "r"}', "row r cannot be read: KeyError: 'token_ids'"),
        (b'{"row_id": "r", "token_ids": [1, 2], "loss_mask": [0], "logprobs": [0, 0], "turns": []}', "row r cannot"),
        (b'{"row_id": "r", "token_ids": [-1], "loss_mask": [0], "logprobs": [0], "turns": []}', "row r cannot"),
        (b'{"row_id": "r", "token_ids": [1], "loss_mask": [0], "logprobs": [0], "turns": []}\n{', "rows"),
        (b"[4]", "rows"),
    ],
)
async def test_what_is_no_file_of_rows_is_one_line_and_exit_2(
    audited: Audited, written: bytes | None, why: str
) -> None:
    """The line names the file or the row."""
    file = audited.folder / "rows.json"
    if written is not None:
        file.write_bytes(written)

    assert (await audited.audit(file))[0] == 2
    assert audited.error.startswith("gateway audit: ")
    assert why in audited.error
    assert audited.error.count("\n") == 1


async def test_a_file_that_is_not_there_is_missed_before_an_engine_is_called(audited: Audited) -> None:
    """Whose absence takes longer to notice, or which would be kept busy for nothing."""
    assert (await audited.audit(audited.folder / "none", engine=["http://127.0.0.1:9"]))[0] == 2
    assert audited.error == f"gateway audit: {audited.folder}/none cannot be read: No such file or directory\n"


async def test_without_an_engine_there_is_no_audit(audited: Audited) -> None:
    """Nor with flags that do not belong together, or an output of no known form."""
    file, out = await audited.exported("rows.ndjson"), audited.folder / "out.txt"
    asked: list[dict[str, Any]] = [{"engine": ["http://127.0.0.1:9"]}, {"teacher": [audited.engine]}, {"out": out}]
    asked.append({"teacher": [audited.engine], "out": out})

    for flags in asked:
        assert (await audited.audit(file, **flags))[0] == 2
        assert audited.error.startswith("gateway audit: ")
    assert not out.exists()


async def test_a_recorded_logprob_that_is_no_number_is_no_small_gap(audited: Audited) -> None:
    """Bytes can hold one; its place is told, and ids with mask 1 in no turn are counted."""
    file = await audited.exported("rows.ndjson", arrays="base64")
    lines = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    at = lines[0]["turns"][0]["start"]
    values = np.frombuffer(b64decode(lines[0]["logprobs"]["base64"]), "<f4").copy()
    values[at] = np.nan
    lines[0]["logprobs"]["base64"] = b64encode(values.tobytes()).decode()
    mask = np.frombuffer(b64decode(lines[0]["loss_mask"]["base64"]), "|u1").copy()
    mask[0] = 1
    lines[0]["loss_mask"]["base64"] = b64encode(mask.tobytes()).decode()
    lines[0]["row_id"] = "a\r\nb: c"  # which no header can hold
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))

    status, text = await audited.audit(file, max_gap=9.0, as_json=False)

    assert status == 1
    assert f"max |gap| inf (position {at})" in text
    assert "not compared: 1 ids with mask 1 outside of every turn" in text


async def test_a_row_that_is_too_long_for_the_policy_is_still_the_teachers(audited: Audited) -> None:
    """The trouble says whose it is."""
    file, out = await audited.exported("rows.ndjson", session="a"), audited.folder / "out.ndjson"
    async with serving(create_sim(max_model_len=4)) as server:
        short = [str(server.make_url(""))]
        status, report = await audited.audit(file, engine=short, teacher=[audited.engine], out=out)

    assert (status, report["rows"][0]["trouble"].partition(":")[0]) == (1, "engine")
    assert orjson.loads(out.read_bytes().splitlines()[0])["teacher_logprobs"]
