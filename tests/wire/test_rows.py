"""Rows as JSON: every field, in every form, as the golden files and the schema say."""

import base64
import json
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gateway.core.rows import Rollout
from gateway.core.segments import Segments
from gateway.core.selection import Selection
from gateway.core.types import Completion, FinishReason, JsonObject, Message, VersionSpan, float32s, token_ids
from gateway.wire.rows import excluded_objects, row_object, with_footer
from tests.core.present import session_now
from tests.core.toy import Talk, user
from tests.wire.rows import QUERIES, SESSION, SYSTEM, TOOLS, export, talk

GOLDEN = Path(__file__).parent / "golden" / "rows"
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "row.schema.json").read_text())
exports = pytest.mark.parametrize("name", QUERIES)


def lines(written: bytes):
    """The values of the lines; the last is the footer."""
    return [json.loads(line) for line in written.split(b"\n")[:-1]]


def read(value, code: str):
    """An array in either form."""
    if isinstance(value, list):
        return array(code, value)
    found = array(code)
    found.frombytes(base64.b64decode(value["base64"]))
    assert value["shape"] == [len(found)]
    return found


@exports
def test_an_export_is_written_as_its_golden_file_says(name):
    """Byte for byte; `tests/wire/golden/make_rows.py` writes the files."""
    assert export(QUERIES[name]) == (GOLDEN / f"{name}.ndjson").read_bytes()


def test_every_golden_export_is_tested():
    """No file is left over."""
    assert sorted(QUERIES) == sorted(file.stem for file in GOLDEN.glob("*.ndjson"))


@exports
def test_every_line_is_as_the_schema_says(name):
    """Rows and the footer; all of their fields are known."""
    validator = Draft202012Validator(SCHEMA)
    for line in lines((GOLDEN / f"{name}.ndjson").read_bytes()):
        assert [error.message for error in validator.iter_errors(line)] == []


def test_the_schema_is_one_and_takes_nothing_else():
    """A field more, a field less, a mask of 2."""
    Draft202012Validator.check_schema(SCHEMA)
    validator = Draft202012Validator(SCHEMA)
    row = lines(export(""))[0]
    for ill in ({**row, "more": 1}, {**row, "loss_mask": [2]}, {k: v for k, v in row.items() if k != "certificate"}):
        assert not validator.is_valid(ill)


def test_a_row_says_whose_it_is_and_what_was_said():
    """In OpenAI's words."""
    row = lines(export(""))[0]
    assert {name: row[name] for name in SESSION} == SESSION
    assert (row["row_id"], row["row_index"], row["n_rows"], row["parent_row_id"]) == ("t1", 0, 3, None)
    assert row["tags"] == {"agent": "main", "try": "1"}
    assert (row["model"], row["tools"]) == ("m", list(TOOLS))
    call = {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": '{"a": 1}'}}
    assert row["messages"] == [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "List it."},
        {"role": "assistant", "content": None, "reasoning_content": "Let me look.", "tool_calls": [call]},
        {"role": "tool", "content": "x\ny", "tool_call_id": "call_1"},
        {"role": "assistant", "content": "Two."},
    ]
    assert [(turn["turn_id"], turn["trained"], turn["masked_because"]) for turn in row["turns"]] == [
        ("t0", True, None),
        ("t1", True, None),
    ]
    assert [(span["version"], span["end"] - span["start"]) for span in row["policy_versions"]] == [
        ("a", 1),
        ("a", 3),
        ("b", 2),
    ]


def test_a_row_without_a_model_says_so():
    """``null``, and not an empty name."""
    made = Talk()
    made.take(user("a"), model="")
    (row,) = map(row_object, Rollout([session_now(made.ledger)]))
    assert row["model"] is None


def test_a_row_shows_what_its_first_prompt_was_rendered_with():
    """In the agent's spelling, for whoever renders it again; what bridged turns say otherwise stands in no prompt."""
    tools = ({"type": "function", "b": 1e22, "a": 1.0},)
    made, named = Talk(), Message("system", "s", name="n")
    first = made.take(named, user("a"), tools=tools)
    made.take(Message("system", "s"), user("a"), first.message, user("b"), tools=({**tools[0], "a": 1},))
    (row,) = lines(export("", made))[:-1]

    assert len(row["turns"]) == 2
    assert json.dumps(row["tools"]) == json.dumps(tools)
    assert row["messages"][0] == {"role": "system", "content": "s", "name": "n"}


def test_a_row_says_how_it_ended_and_whether_the_model_did_that():
    """Which is how its last turn did."""
    rows = lines(export(QUERIES["duplicate"]))[:-1]
    assert [(row["row_id"], row["ended_by"], row["truncated"]) for row in rows] == [
        ("t1", "stop", False),
        ("t4", "stop", False),
        ("t5", "client_gone", True),
        ("t6", "stop", False),
    ]


def test_arrays_say_the_same_in_either_form():
    """Little-endian bytes, with type and shape."""
    for plain, packed in zip(lines(export(""))[:-1], lines(export("arrays=base64"))[:-1], strict=True):
        for name, code, dtype in (("token_ids", "I", "<u4"), ("loss_mask", "B", "|u1"), ("logprobs", "f", "<f4")):
            assert read(plain[name], code) == read(packed[name], code)
            assert packed[name]["dtype"] == dtype
        assert plain["certificate"] == packed["certificate"]


def test_side_arrays_are_in_base64_whatever_the_form_of_the_others():
    """Experts also as trainers read them before, where that is asked for."""
    last, old = lines(export(""))[2], lines(export(QUERIES["base85"]))[2]
    experts = last["side_arrays"]["routed_experts"]
    assert (experts["start"], experts["array"]["shape"]) == (0, [len(last["token_ids"]) - 1, 2, 1])
    assert old["side_arrays"]["sampling_mask"] == last["side_arrays"]["sampling_mask"]
    was = old["side_arrays"]["routed_experts"]
    assert base64.b85decode(was["data"]) == base64.b64decode(experts["array"]["base64"])
    assert old["certificate"] == last["certificate"]


def test_a_side_array_that_a_turn_lacks_is_null():
    """For the whole row."""
    made = talk()
    last = made.ledger.turns[-1]
    made.take(SYSTEM, *made.ledger.history(last), user("More."))
    (row,) = lines(export("leaves=latest", made))[:-1]
    assert row["side_arrays"] == {"routed_experts": None, "sampling_mask": None}
    assert row["certificate"]["arrays"]["side_arrays"] == {"routed_experts": None, "sampling_mask": None}


def test_the_weights_are_there_only_where_turns_are_split():
    """One for each id."""
    assert all("loss_weights" not in row for row in lines(export("")))
    split = lines(export("shared=split"))[:-1]
    assert all(len(row["loss_weights"]) == len(row["token_ids"]) for row in split)


def test_the_footer_says_what_the_file_holds_and_what_it_leaves_out():
    """Each turn that no row trains, with its reason."""
    *rows, last = lines(export(""))
    footer = last["footer"]
    assert (footer["version"], footer["rows"]) == (1, len(rows))
    assert [(left["turn_id"], left["reason"], left["tokens"]) for left in footer["excluded"]] == [
        ("t3", "train_false", 9),
        ("t4", "undelivered", 9),
        ("t5", "aborted", 9),
    ]
    assert {left["session_id"] for left in footer["excluded"]} == {"task-17/a"}


def test_what_is_left_out_is_asked_for_after_the_last_row():
    """An export that is read slowly need not hold it."""
    excluded: list[JsonObject] = []
    written = with_footer([{"certificate": {"row": "0" * 64}}], lambda: excluded)
    next(written)
    excluded.append({"turn_id": "t"})
    footer = next(written)["footer"]
    assert isinstance(footer, dict)
    assert footer["excluded"] == [{"turn_id": "t"}]


def test_nothing_is_left_out_of_a_session_without_turns():
    """Which has no rows either."""
    segments = Segments(session_now(Talk().ledger), Selection(), None)
    assert excluded_objects("s", segments.excluded()) == []


@given(st.lists(st.floats(-(2.0**100), 0, width=32), min_size=1, max_size=20))
def test_logprobs_survive_the_way_to_the_trainer(values):
    """Float32 in, the very same float32 out."""
    made = Talk()
    span = VersionSpan("v1", 0, len(values))
    sampled = Completion(token_ids([5] * len(values)), float32s(values), FinishReason.STOP, (span,))
    made.take(user("a"), sampled=sampled)
    (row,) = lines(export("", made))[:-1]
    assert row["logprobs"][row["turns"][0]["start"] :] == values
