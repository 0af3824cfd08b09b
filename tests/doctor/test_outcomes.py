"""What became of a call, by its status and what was recorded of it."""

import pytest

from gateway.doctor.outcomes import Outcomes
from gateway.doctor.recorder import Call

CALLS = {
    "left": Call("POST", "/v1/chat/completions", marked=False),
    "refused": Call("POST", "/v1/chat/completions", marked=False, status=400, refusal="no messages"),
    "failed": Call("POST", "/v1/chat/completions", marked=False, status=503, refusal="no engine"),
    "broken off": Call("POST", "/v1/chat/completions", marked=False, status=200, turn_ids=("turn_1",)),
}


@pytest.mark.parametrize(
    ("call", "outcome", "message"),
    [
        ("left", "left", "its client left before the end"),
        ("refused", "refused", "no messages"),
        ("failed", "failed", "no engine"),
        ("broken off", "failed", "broken off amid the answer"),
    ],
)
def test_a_call_without_an_answer_says_why(call, outcome, message):
    """A stream that had begun well, and of which nothing was recorded, has failed all the same."""
    outcomes = Outcomes([])

    assert outcomes.of(CALLS[call]) == outcome
    assert not outcomes.is_good(CALLS[call])
    assert outcomes.error(CALLS[call])[2] == message
