"""Agents of real packages, which know nothing of a gateway but its URL, through conversations with tools."""

import json
import re
from itertools import pairwise

import pytest

from tests.clients.conftest import Json, Play, Played
from tests.clients.script import ANSWERS, MALFORMED, SHELL, SUBMISSION, WEATHER

CHANGES: dict[str, set[str]] = {
    "with_openai": set(),
    "with_litellm": set(),
    "with_langchain": {"reasoning_dropped"},
    "with_openai_agents": {"reasoning_dropped"},
    "with_pydantic_ai": {"arguments_reserialised"},
}
"""How what each client sends back differs from the answers that it got."""


@pytest.fixture(scope="module", params=CHANGES)
def agent(request: pytest.FixtureRequest) -> str:
    """One client after the other."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def whole(agent: str, play: Play) -> Played:
    """Its session of five turns, each answered whole."""
    return play(agent, WEATHER)


@pytest.fixture(scope="module")
def streamed(agent: str, play: Play) -> Played:
    """The same, streamed."""
    return play(agent, WEATHER, "stream")


@pytest.fixture(params=["whole", "streamed"])
def played(request: pytest.FixtureRequest, whole: Played, streamed: Played) -> Played:
    """One of them after the other."""
    return {"whole": whole, "streamed": streamed}[request.param]


@pytest.fixture(scope="module")
def shell(play: Play) -> Played:
    """The session of mini-swe-agent, in which the model fails once to call a tool."""
    return play("with_mini_swe_agent", SHELL)


def test_the_client_reads_the_answers_as_they_were_sampled(played: Played) -> None:
    """White space around them and letters beyond ASCII included."""
    assert played.answers == list(ANSWERS)


def test_every_continuing_turn_is_bridged(played: Played) -> None:
    """The first is rendered, having nothing to extend."""
    assert [turn["how"] for turn in played.turns] == ["rendered", *["bridged"] * (len(WEATHER) - 1)]
    assert [turn["reason"] for turn in played.turns] == ["first_turn", *[None] * (len(WEATHER) - 1)]


def test_the_one_row_is_what_the_engine_read_and_sampled(played: Played) -> None:
    """Id for id, and what it sampled is what is trained."""
    (row,) = played.rows
    assert row["token_ids"] == played.contexts[-1]
    assert trained(row) == [token_id for entry in played.journal for token_id in entry.emitted]


def test_what_the_client_changes_in_its_replay_is_known(agent: str, played: Played) -> None:
    """Every kind is accepted, and no other appears."""
    assert {kind for turn in played.turns for kind in turn["differences"]} == CHANGES[agent]


def test_a_streamed_session_leaves_the_rows_of_one_that_is_not(whole: Played, streamed: Played) -> None:
    """Whatever the client's own accumulator made of the stream."""
    assert set(whole.content_types) == {"application/json"}
    assert set(streamed.content_types) == {"text/event-stream"}
    assert [nameless(row) for row in streamed.rows] == [nameless(row) for row in whole.rows]


def test_an_answer_that_a_harness_drops_forks_and_is_kept(shell: Played) -> None:
    """mini-swe-agent forgets an answer without a call and complains: the next turn extends the one before."""
    first, dropped, *others = shell.turns
    assert shell.answers == [SUBMISSION]
    assert "malformed_tool_call" in dropped["flags"]
    assert [turn["parent_id"] for turn in (dropped, others[0])] == [first["turn_id"]] * 2
    assert [turn["parent_id"] for turn in others[1:]] == [turn["turn_id"] for turn in others[:-1]]
    assert [turn["how"] for turn in shell.turns] == ["rendered", *["bridged"] * (len(SHELL) - 1)]
    assert not any(turn["differences"] for turn in shell.turns)


def test_nothing_of_a_dropped_answer_is_lost_or_trained_twice(shell: Played) -> None:
    """Two rows, of which one ends in the dropped answer."""
    assert len(shell.rows) == 2
    contexts = shell.contexts
    dropped = contexts.pop(MALFORMED)
    assert sorted(row["token_ids"] for row in shell.rows) == sorted([dropped, contexts[-1]])
    assert sum(sum(row["loss_mask"]) for row in shell.rows) == sum(len(entry.emitted) for entry in shell.journal)
    assert all(after[: len(before)] == before for before, after in pairwise(contexts))


def nameless(row: Json) -> Json:
    """A row without what was drawn for it alone: names of turns and calls, where their engine was, hashes of these."""
    drawn = {"row_id", "turn_id", "parent_id", "engine", "certificate"}
    row = json.loads(re.sub("call_[0-9a-f]{24}", "call", json.dumps(row)))
    turns = [{key: value for key, value in turn.items() if key not in drawn} for turn in row["turns"]]
    return {key: value for key, value in row.items() if key not in drawn} | {"turns": turns}


def trained(row: dict[str, list[int]]) -> list[int]:
    """The ids with loss mask 1."""
    return [token_id for token_id, mask in zip(row["token_ids"], row["loss_mask"], strict=True) if mask]
