"""`gateway mask` on files."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.cli import cli
from gateway.render.demo import MODEL_NAME
from tests.render.render_double import render_double

TALK: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "How warm?"}]},
    {"role": "assistant", "content": "Very."},
    {"role": "user", "content": "And there?"},
    {"role": "assistant", "content": "Too."},
]


def talk(**fields: Any) -> dict[str, Any]:
    """A conversation whose answer has more fields."""
    return {"messages": [TALK[1], TALK[2] | fields]}


def calling(arguments: str) -> dict[str, Any]:
    """One whose answer is a call."""
    return talk(tool_calls=[{"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}])


@pytest.fixture
def mask(tmp_path):
    """Run the command over conversations: exit status, rows, standard error."""

    def run(*conversations, args=()):
        file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        lines = [line if isinstance(line, str) else json.dumps(line) for line in conversations]
        file.write_text("\n".join(lines) + "\n")
        command = ["mask", str(file), "--model", MODEL_NAME, "--out", str(out), *args]
        done = CliRunner().invoke(cli, command)
        rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else None
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
        return done.exit_code, rows, done.stderr

    return run


def test_the_renderer_is_said_as_to_the_gateway(mask):
    """An option that it does not heed is refused."""
    status, rows, err = mask({"messages": TALK}, args=["--renderer-name", "qwen3", "--renderer-config", '{"x": 1}'])

    assert (status, rows) == (2, None)
    assert "--renderer-config x" in err


def test_each_conversation_becomes_rows_and_the_end_says_how_many(mask):
    """Empty lines count for nothing; messages of weight 0 are context, as OpenAI's format has it."""
    light = [message | ({"weight": 0} if message["content"] == "Very." else {}) for message in TALK]
    status, rows, err = mask({"messages": TALK}, "", {"messages": light, "tools": [], "more": 1})

    assert status == 0
    assert [(row["index"], row["row_index"], row["cut_tokens"]) for row in rows] == [(0, 0, 0), (1, 0, 0)]
    assert [[span["message"] for span in row["answers"]] for row in rows] == [[2, 4], [4]]
    assert rows[0]["token_ids"] == rows[1]["token_ids"]
    for row in rows:
        trained = sum(span["end"] - span["start"] for span in row["answers"])
        assert (sum(row["loss_mask"]), len(row["loss_mask"])) == (trained, len(row["token_ids"]))
    ids, trained = (
        sum(map(count, rows)) for count in (lambda row: len(row["loss_mask"]), lambda r: sum(r["loss_mask"]))
    )
    assert err == f"gateway mask: 2 conversations, 2 rows, {trained} of {ids} ids trained\n"


@pytest.mark.parametrize(("side", "most", "answers"), [("left", 10, [4]), ("right", 30, [2])])
def test_long_rows_are_cut_where_it_is_said(mask, side, most, answers):
    """And refused where nothing is."""
    status, rows, _ = mask({"messages": TALK}, args=["--max-tokens", str(most), "--truncate", side])
    assert (status, len(rows[0]["token_ids"])) == (0, most)
    assert [span["message"] for span in rows[0]["answers"]] == answers

    refused, _, err = mask({"messages": TALK}, args=["--max-tokens", "20"])
    assert refused == 1
    assert "line 1: a row has" in err


def test_a_row_without_anything_to_train_is_left_out_and_named(mask):
    """Cut so far that no answer is left, or without an answer from the start."""
    args = ["--max-tokens", "3", "--truncate", "right"]
    status, rows, err = mask({"messages": TALK}, {"messages": TALK[:2]}, args=args)

    assert (status, rows) == (0, [])
    assert "line 1: 1 of 1 rows left out" in err
    assert "line 2: left out" in err


@pytest.mark.parametrize(
    ("faulty", "says"),
    [
        ("{", "line 3: it is no JSON: Expecting"),
        ("[]", "line 3: it must be a JSON object"),
        ('{"messages": [], "messages": []}', "line 3: it is no JSON: the key 'messages' stands twice"),
        ({"messages": [{"role": "robot"}]}, "line 3: messages[0].role must be one of"),
        (talk(thinking="hm"), "line 3: messages[1].thinking would be left out: known are role, content, name, reas"),
        (talk(weight=0.5), "line 3: messages[1].weight must be 0 or 1"),
        (talk(weight=True), "line 3: messages[1].weight must be 0 or 1"),
        (talk(weight=[]), "line 3: messages[1].weight must be 0 or 1"),
        ({"messages": [TALK[1] | {"reasoning": "hm"}]}, "line 3: messages[0].reasoning would be left out"),
        (calling("{"), "line 3: message 1: the arguments of its call of f are no JSON: Expecting"),
        (calling("[]"), "line 3: message 1: the arguments of its call of f are no JSON object"),
        ({"messages": TALK[2:]}, "line 3: message 0: an answer opens the conversation"),
        ({"messages": [*TALK, TALK[4]]}, "line 3: message 5: two answers stand in a row"),
    ],
)
def test_a_faulty_conversation_is_named_and_no_file_is_written(mask, faulty, says):
    """Half a training set looks like a whole one."""
    status, rows, err = mask({"messages": TALK}, "", faulty)

    assert (status, rows, len(err.splitlines())) == (1, None, 1)
    assert says in err


def test_what_says_nothing_is_left_out_of_a_message(mask):
    """Fields that are null or empty, as SDKs write them; arguments that are not there are none."""
    empty = talk(refusal=None, annotations=[], audio=None, weight=1)
    status, rows, _ = mask(empty, calling(""))

    assert (status, len(rows)) == (0, 2)


def test_a_model_that_is_not_there_is_exit_2(mask, tmp_path):
    """As for every other command."""
    status, rows, err = mask({"messages": TALK}, args=["--model", str(tmp_path / "nowhere")])

    assert (status, rows) == (2, None)
    assert "--model" in err


def test_a_server_that_renders_is_given_its_key(mask, monkeypatch):
    """Said as to the gateway, on the command line or in the environment."""
    with render_double() as server:
        server.says((403, {"error": {"message": "no"}}, {}))
        monkeypatch.setenv("GATEWAY_ENGINE_KEY", "hush")
        status, _, err = mask({"messages": TALK}, args=["--renderer", "remote", "--render-url", server.url])

    assert status == 2
    assert "hush" not in err
    assert {headers["authorization"] for _, _, headers in server.asked} == {"Bearer hush"}
