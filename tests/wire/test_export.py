"""What a trainer reads: every item once, in order, page by page."""

from dataclasses import asdict
from functools import partial

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.canon import Difference
from gateway.core.fate import Fate
from gateway.core.sampling import record
from gateway.core.segments import Rows
from gateway.core.types import Completion, FinishReason, Labels, Origin, Sampling, VersionSpan, float32s, token_ids
from gateway.errors import BadRequest
from gateway.wire.export import encode_page, row_object, told_turn, turn_object
from tests.wire.turns import turn

THIRD = float32s([-1 / 3])[0]
"""The nearest that float32 comes to it."""


def page(items, cursor: str | None, size: int = 2, select=list):
    """One page, read back."""
    return read(encode_page(items, cursor, size, select, lambda item: {"item": item}))


def read(pieces):
    """What a client makes of a page."""
    return orjson.loads(b"".join(pieces))


def untold(_turn):
    """Nothing became of it."""
    return Fate(None, False)


@settings(deadline=None)
@given(st.lists(st.integers(0, 99), max_size=20), st.integers(1, 7))
def test_all_pages_together_are_the_list(items, size):
    """No item twice, none left out, no page too long, none empty but the only one."""
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        answer = page(items, cursor, size)
        assert ["data", "next"] == list(answer)
        assert len(answer["data"]) <= size
        found += [entry["item"] for entry in answer["data"]]
        cursor, pages = answer["next"], pages + 1
    assert items == found
    assert max(1, -(-len(items) // size)) == pages


def test_pages_are_of_the_turns_that_there_were_at_the_first():
    """What a session does meanwhile is for the next reading: nothing is lost or doubled."""
    cursor = page([1, 2, 3], None)["next"]
    assert {"data": [{"item": 3}], "next": None} == page([1, 2, 3, 4], cursor)


def test_rows_stay_what_they_were_while_their_session_goes_on():
    """A row that grows moves to the end; a reader who is under way still gets each as it was."""
    roots = [turn(f"t{at}") for at in range(3)]
    first = read(encode_page(roots, None, 2, Rows, lambda row: {"id": row.id}))
    grown = [*roots, turn("t3", roots[0]), turn("t4", roots[1])]
    second = read(encode_page(grown, first["next"], 2, Rows, lambda row: {"id": row.id}))

    assert ["t0", "t1", "t2"] == [row["id"] for row in first["data"] + second["data"]]
    assert second["next"] is None


def test_a_page_of_large_items_comes_in_pieces():
    """So that no more than one of them is held at a time; together they are the page."""
    turns = [turn(name) for name in "123"]
    pieces = list(encode_page(turns, None, 3, list, lambda item: {"item": item.id * 70_000}))

    assert 4 == len(pieces)
    assert ["1" * 70_000, "2" * 70_000, "3" * 70_000] == [entry["item"] for entry in read(pieces)["data"]]


def test_a_cursor_at_the_end_is_an_empty_page():
    """Nothing is there yet."""
    assert {"data": [], "next": None} == page([1, 2], "2.2")


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        " ",
        "-1",
        "+1",
        "1",
        "1.x",
        "x",
        "1.0 ",
        "1.0.0",
        "0x1.0",
        "\u0663.0",
        "\u00b2.0",
        "9" * 13 + ".0",
        "9" * 5000 + ".0",
    ],
)
def test_a_cursor_that_is_none_of_ours_is_refused(cursor):
    """Digits only, in ASCII, and not too many."""
    with pytest.raises(BadRequest) as caught:
        page([1, 2, 3], cursor)
    assert "cursor" == caught.value.param


def test_the_json_of_a_first_turn():
    """All keys, whatever their values."""
    assert {
        "turn_id": "t1",
        "parent_id": None,
        "status": "complete",
        "how": "rendered",
        "reason": "first_turn",
        "prompt_tokens": 2,
        "completion_tokens": 2,
        "overshoot_tokens": 0,
        "finish_reason": "stop",
        "ended_by": "stop",
        "engine": "http://engine-0:8000",
        "rank": 0,
        "policy_versions": [{"version": "v1", "start": 0, "end": 2, "source": "engine"}],
        "sampling": {
            "max_tokens": 100,
            "min_tokens": 0,
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "seed": None,
            "stop": [],
            "include_stop_str_in_output": False,
            "ignore_eos": False,
            "logit_bias": None,
            "extra_args": None,
            "stop_token_ids": [2],
        },
        "overridden": {},
        "distribution": "exact",
        "logprobs_mode": "unknown",
        "logprobs_exact": True,
        "differences": {},
        "flags": [],
        "thinking_retention": None,
        "tags": {},
        "train": True,
    } == turn_object(turn("t1"))


def test_the_json_of_a_bridged_turn_with_everything_odd_about_it():
    """Differences say what they concern."""
    second = turn(
        "t2",
        turn("t1"),
        differences={"content_whitespace": Difference(2, 10), "reasoning_dropped": Difference(1, 3)},
        labels=Labels({"agent": "a/1"}, train=False),
        sampling=record(
            Sampling(temperature=0.7, stop=("END",)), max_tokens=9, overridden={"seed": 7}, logprobs_mode="processed"
        ),
        ended_by="client_gone",
        flags=("stop_cut", "malformed_tool_call"),
        origin=Origin("http://engine-1:8000", 3, "all"),
        completion=Completion(
            token_ids([7, 8, 9]),
            float32s([-1.0] * 3),
            FinishReason.ABORT,
            (VersionSpan("a", 0, 1, "assumed"), VersionSpan("b", 1, 3, "fenced")),
        ),
    )
    expected = {
        "turn_id": "t2",
        "parent_id": "t1",
        "status": "aborted",
        "how": "bridged",
        "reason": None,
        "prompt_tokens": 6,
        "completion_tokens": 3,
        "overshoot_tokens": 0,
        "finish_reason": "abort",
        "ended_by": "client_gone",
        "engine": "http://engine-1:8000",
        "rank": 3,
        "policy_versions": [
            {"version": "a", "start": 0, "end": 1, "source": "assumed"},
            {"version": "b", "start": 1, "end": 3, "source": "fenced"},
        ],
        "sampling": asdict(second.sampling.effective) | {"stop": ["END"], "stop_token_ids": []},
        "overridden": {"seed": 7},
        "distribution": "exact",
        "logprobs_mode": "processed",
        "logprobs_exact": True,
        "differences": {
            "content_whitespace": {"messages": 2, "tokens": 10},
            "reasoning_dropped": {"messages": 1, "tokens": 3},
        },
        "flags": ["stop_cut", "malformed_tool_call"],
        "thinking_retention": "all",
        "tags": {"agent": "a/1"},
        "train": False,
    }
    assert expected == turn_object(second)
    assert expected == read(encode_page([second], None, 1, list, turn_object))["data"][0]


def test_the_json_of_a_row():
    """Its turns say where they lie in it; two rows of one tree train their shared turn once."""
    first = turn("t1")
    left, right = turn("t2", first), turn("t3", first, origin=Origin("http://engine-0:8000", 0, "all"))
    encoded = encode_page(
        [first, left, right], None, 20, Rows, partial(row_object, {"session_id": "s/1", "reward": 0.5}, untold)
    )
    shared = {**told_turn(untold, first), "start": 2, "end": 4}
    assert [
        {
            "session_id": "s/1",
            "reward": 0.5,
            "row_id": "t2",
            "token_ids": [1, 2, 7, 8, 1, 2, 7, 8],
            "loss_mask": [0, 0, 1, 1, 0, 0, 1, 1],
            "logprobs": [0.0, 0.0, -0.5, THIRD, 0.0, 0.0, -0.5, THIRD],
            "thinking_retention": None,
            "turns": [{**shared, "trained": True}, {**told_turn(untold, left), "start": 6, "end": 8, "trained": True}],
        },
        {
            "session_id": "s/1",
            "reward": 0.5,
            "row_id": "t3",
            "token_ids": [1, 2, 7, 8, 1, 2, 7, 8],
            "loss_mask": [0, 0, 0, 0, 0, 0, 1, 1],
            "logprobs": [0.0, 0.0, -0.5, THIRD, 0.0, 0.0, -0.5, THIRD],
            "thinking_retention": "all",
            "turns": [
                {**shared, "trained": False},
                {**told_turn(untold, right), "start": 6, "end": 8, "trained": True},
            ],
        },
    ] == read(encoded)["data"]


@settings(deadline=None)
@given(st.lists(st.floats(-(2.0**100), 0, width=32), min_size=1, max_size=20))
def test_logprobs_survive_the_way_to_the_trainer(values):
    """Float32 in, the very same float32 out."""
    completion = Completion(
        token_ids([5] * len(values)), float32s(values), FinishReason.STOP, (VersionSpan("v1", 0, len(values)),)
    )
    encoded = encode_page([turn("t1", completion=completion)], None, 1, Rows, partial(row_object, {}, untold))
    assert values == read(encoded)["data"][0]["logprobs"][2:]
