"""The account of turns that were cut: what is true passes, and each thing that may be untrue is named."""

from collections.abc import Sequence

import pytest

from gateway.core.rope import rope
from gateway.core.turn import Turn
from gateway.core.types import Completion, Cut, FinishReason, Origin, VersionSpan, float32s, token_ids
from gateway.render.demo import FOLDER
from gateway.sim import logprob
from gateway.sim.policy import Policy
from gateway.sim.server import Entry
from gateway.sim.vocabulary import Vocabulary
from tests.chaos.account import Said, faults_of, said_by
from tests.wire.turns import turn

POLICY = Policy(Vocabulary(FOLDER))
PROMPT = POLICY.vocabulary.encode("<|im_start|>user\nAny news of the geese?<|im_end|>\n<|im_start|>assistant\n")
ANSWER = POLICY.say(PROMPT, 0)


def cut(position: int, here: str, there: str) -> Cut:
    """A cut of an answer that went from one engine to another."""
    return Cut(position, "lost", here, 0, there, 0, "recomputed")


CUTS = (cut(5, "one", "other"), cut(12, "other", "other"))


def recorded(cuts: Sequence[Cut] = CUTS, ids: Sequence[int] = ANSWER, *, engine: str = "other", by: float = 0) -> Turn:
    """A turn that was cut twice, whose logprobs are off `by` so much."""
    logprobs = [logprob(at, token_id) - by for at, token_id in enumerate(ids, len(PROMPT))]
    spans = (VersionSpan("v1", 0, len(ids), "engine"),)
    sampled = Completion(token_ids(ids), float32s(logprobs), FinishReason.STOP, spans, cuts=tuple(cuts))
    return turn("t", prompt=rope(PROMPT), completion=sampled, origin=Origin(engine, 0))


@pytest.fixture(scope="module")
def said() -> Said:
    """What the engines said of it; two ids of the first call were lost on the way."""

    def entry(begun: int, end: int | None = None) -> Entry:
        return Entry("c1", {}, {}, [*PROMPT, *ANSWER[:begun]], None, ANSWER[begun:end])

    return said_by({"one": [entry(0, 7)], "other": [entry(5, 12), entry(12)]})


def test_a_turn_that_is_what_its_engines_said_passes(said: Said) -> None:
    """Also where an engine had said more than arrived."""
    assert faults_of(recorded(), said, POLICY) == []


@pytest.mark.parametrize(
    "untrue",
    [
        recorded((cut(6, "one", "other"), CUTS[1])),
        recorded((CUTS[0],)),
        recorded(()),
        recorded((cut(5, "one", "one"), CUTS[1])),
        recorded(engine="one"),
        recorded(ids=[*ANSWER[:8], ANSWER[8] + 1, *ANSWER[9:]]),
        recorded(ids=ANSWER[:-1]),
        recorded(by=0.001),
    ],
    ids=["place", "untold", "none_told", "engine", "last_engine", "id", "end", "logprob"],
)
def test_what_is_untrue_is_named(said: Said, untrue: Turn) -> None:
    """Whichever part of it."""
    assert faults_of(untrue, said, POLICY)
