"""What goes wrong at the engine: the client hears what was missing, and nothing untrue is recorded."""

import pytest

from tests.edge.house import HELLO, Answer, House, OpenHouse, Words, extends, user

EVIDENCE = {
    "no_logprobs": "without logprobs",
    "missing_logprob": "logprobs",
    "null_logprob": "is missing",
    "sentinel_logprob": "is missing",
    "extra_token": "logprobs",
    "positive_logprob": "0.25",
    "wrong_logprob_id": "the logprob of",
    "garbage": "not a JSON object",
}
"""Answers that are no evidence, and what the client hears."""
REFUSALS = {"scale_out_disabled": "--enable-scale-out", "not_found": "--enable-scale-out"}
"""Engines that are not set up for us, and what the client hears."""
DOWN = {"error_500": "500", "error_503": "busy"}
"""Engines that answer with a failure, and what the client hears."""
BROKEN_OFF = {"cut": "the engine at http", "error_event": "500", "no_finish": "aborted", "abort": "aborted"}
"""Answers that end too soon, and what the client hears."""
FAULTS = EVIDENCE | REFUSALS | DOWN | BROKEN_OFF
AFTER = [0, 3]


def is_honest(answer: Answer, kind: str) -> None:
    """The refusal has the status of `kind`, in OpenAI's shape, and says what was missing or what to do."""
    status = 502 if kind in EVIDENCE | REFUSALS else 503
    assert answer.status == status
    assert answer.error["code"] == {502: "engine_protocol_error", 503: "engine_unavailable"}[status]
    assert answer.error["type"] == "server_error"
    assert FAULTS[kind] in answer.error["message"]
    assert ("Retry-After" in answer.headers) == (status == 503)
    assert (answer.headers.get("x-should-retry") == "false") == (status == 502)


def left_over(kind: str, after: int) -> int:
    """How many ids of the broken call are kept, as an aborted turn."""
    return after if kind in BROKEN_OFF else 0


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("kind", FAULTS)
async def test_a_first_call_that_fails_leaves_no_session(house: House, words: Words, kind: str, after: int) -> None:
    """Save what was sampled with evidence before the engine broke off; the next call starts the branch anew."""
    house.faults.inject(kind, after=after)
    script = words.said("Hello, you.")

    is_honest(await house.ask("s", HELLO, script), kind)

    kept = left_over(kind, after)
    turns = await house.turns("s")
    assert [(turn["status"], turn["completion_tokens"]) for turn in turns] == [("aborted", kept)] * (kept > 0)
    assert await house.rows("s") == []
    assert await house.metric("gateway_turns_in_flight") == 0

    again = await house.ask("s", HELLO, script)

    assert again.status == 200
    assert (await house.turns("s"))[-1]["parent_id"] is None
    (row,) = await house.rows("s")
    assert row["token_ids"][-len(script) :] == script


@pytest.mark.parametrize("version", ["0.20.2", "0.32.0"])
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("kind", FAULTS)
async def test_a_later_call_that_fails_leaves_the_turns_as_they_were(
    open_house: OpenHouse, words: Words, kind: str, after: int, version: str
) -> None:
    """Save one aborted turn as above; the next call attaches to the last good turn and never to the broken one."""
    house = await open_house(sim={"version": version})
    script = words.said("Hello, you.")
    first = await house.ask("s", HELLO, script)
    before = await house.turns("s")
    rows = await house.rows("s")
    house.faults.inject(kind, after=after)
    messages = [*HELLO, first.message, user("Again?")]

    is_honest(await house.ask("s", messages, script), kind)

    kept = left_over(kind, after)
    turns = await house.turns("s")
    assert turns[:1] == before
    assert [(turn["status"], turn["completion_tokens"]) for turn in turns[1:]] == [("aborted", kept)] * (kept > 0)
    assert await house.rows("s") == rows
    assert await house.metric("gateway_turns_in_flight") == 0

    again = await house.ask("s", messages, script)

    assert again.status == 200
    last = (await house.turns("s"))[-1]
    assert (last["status"], last["how"], last["parent_id"]) == ("complete", "bridged", before[0]["turn_id"])
    assert extends(house.prompts[-1], house.prompts[0] + script)
    assert len(await house.rows("s")) == 1


@pytest.mark.parametrize("kind", FAULTS)
async def test_a_refusal_echoes_no_prompt(house: House, words: Words, kind: str) -> None:
    """What the client said is not repeated in error messages, which end up in logs."""
    house.faults.inject(kind, after=1)

    answer = await house.ask("s", [user("My password is swordfish.")], words.said("Hello."))

    assert "swordfish" not in str(answer.body)


async def test_an_engine_without_a_sampled_token_is_refused(house: House) -> None:
    """A completion of nothing proves nothing."""
    answer = await house.ask("s", HELLO, [])

    assert answer.status == 502
    assert "without a sampled token" in answer.error["message"]
    assert await house.turns("s") == []


async def test_what_was_sampled_is_kept_when_something_breaks_after_it(
    house: House, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when what breaks is not foreseen: the evidence is there, and the answer is not."""

    def broken(*_arguments: object) -> None:
        raise RuntimeError("a parser that cannot parse")

    monkeypatch.setattr("gateway.render.reading.Reading.finish", broken)
    answer = await house.ask("s", HELLO, words.said("Hi."))

    assert answer.status == 500
    (turn,) = await house.turns("s")
    assert (turn["status"], turn["completion_tokens"]) == ("aborted", len(words.said("Hi.")))
