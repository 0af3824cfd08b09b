"""What fails at the gateway or behind it is an error in every client, however much of an answer it has read by then."""

import pytest

from gateway.sim.faults import Fault
from tests.clients.conftest import Play, Played
from tests.clients.script import says

PACKAGES = ("openai", "litellm", "langchain", "openai-agents", "pydantic-ai")
BROKEN_OFF = ("cut", "error_event", "no_finish")
"""Faults of an engine that has begun to answer."""
FAULTS = (*BROKEN_OFF, "error_503")
SAID = "One, two, three, four"
TEXT = f"{SAID}, five, six, seven, eight."
AFTER = 10
"""How many tokens the engine samples before a fault: those of `SAID`."""

Outcome = tuple[str, str]
"""The text that a client gave, and the name of its error."""


@pytest.fixture(scope="module")
def failed(play: Play) -> Played:
    """A session in which nothing goes right, package by package and fault by fault."""
    faults = [Fault(kind, AFTER) for kind in FAULTS for _ in PACKAGES]
    return play("errors", [says(TEXT, reasoning=None)] * len(faults), str(len(FAULTS)), faults=faults)


@pytest.fixture(scope="module")
def outcomes(failed: Played) -> dict[str, dict[str, Outcome]]:
    """What became of each kind of call, by package."""
    kinds = ("overflow", "streamed overflow", *FAULTS)
    each = [tuple(outcome) for outcome in failed.answers]
    rows = [each[start : start + len(PACKAGES)] for start in range(0, len(each), len(PACKAGES))]
    return {kind: dict(zip(PACKAGES, row, strict=True)) for kind, row in zip(kinds, rows, strict=True)}


def test_every_client_knows_a_context_overflow_for_what_it_is(outcomes: dict[str, dict[str, Outcome]]) -> None:
    """Their harnesses compact or stop on it; on any other error they would try again."""
    assert outcomes["overflow"] == outcomes["streamed overflow"]
    assert outcomes["overflow"] == {
        "openai": ("", "context_length_exceeded"),
        "litellm": ("", "ContextWindowExceededError"),
        "langchain": ("", "OpenAIContextOverflowError"),
        "openai-agents": ("", "context_length_exceeded"),
        "pydantic-ai": ("", "ModelContextWindowExceededError"),
    }


@pytest.mark.parametrize("fault", BROKEN_OFF)
def test_every_client_raises_when_its_stream_breaks_off(outcomes: dict[str, dict[str, Outcome]], fault: str) -> None:
    """It has passed on the text that came before. At an end without a word, some would take that for the answer."""
    texts = {text for text, _ in outcomes[fault].values()}
    assert texts == {SAID}
    assert {package: error for package, (_, error) in outcomes[fault].items()} == {
        "openai": "APIError",
        "litellm": "MidStreamFallbackError",
        "langchain": "APIError",
        "openai-agents": "APIError",
        "pydantic-ai": "ModelServerError",
    }


def test_every_client_raises_when_its_stream_cannot_begin(outcomes: dict[str, dict[str, Outcome]]) -> None:
    """By the status, as for an answer that is not streamed."""
    assert outcomes["error_503"] == {
        "openai": ("", "InternalServerError"),
        "litellm": ("", "ServiceUnavailableError"),
        "langchain": ("", "OpenAIAPIError"),
        "openai-agents": ("", "InternalServerError"),
        "pydantic-ai": ("", "ModelUnavailableError"),
    }


def test_no_turn_of_a_stream_that_broke_off_is_complete(failed: Played) -> None:
    """What was sampled with evidence is kept, and not trained on; nothing was tried twice."""
    kept = [(turn["status"], turn["completion_tokens"]) for turn in failed.turns]
    assert kept == [("aborted", AFTER)] * len(BROKEN_OFF) * len(PACKAGES)
    assert failed.rows == []
    assert len(failed.journal) == len(FAULTS) * len(PACKAGES)
