"""A session that has used up its budget is told so, in the way on which harnesses compact or stop."""

import asyncio

import pytest

from tests.edge.house import HELLO, Answer, House, Json, OpenHouse, Words, user, waiting


def ran_out(answer: Answer, what: str) -> None:
    """A 429 that says what is used up, and that no SDK tries again."""
    assert (answer.status, answer.error["code"]) == (429, "session_budget_exhausted")
    assert answer.error["type"] == "rate_limit_error"
    assert what in answer.error["message"]
    assert answer.headers["x-should-retry"] == "false"
    assert "Retry-After" not in answer.headers


async def made(house: House, **budget: int) -> str:
    """A session with a budget."""
    answer = await house.send("POST", "/sessions", session_id="s", budget=budget)
    assert answer.status == 201
    return "s"


async def unchanged(house: House, before: tuple[list[Json], int]) -> None:
    """Ledger and engine are as they were."""
    assert (await house.turns("s"), len(house.journal)) == before


async def test_turns_run_out(house: House, words: Words) -> None:
    """The last is taken, the next refused; branches count like any other turn."""
    await made(house, max_turns=2)
    for text in ("One.", "Two."):
        assert (await house.ask("s", HELLO, words.said(text))).status == 200
    before = (await house.turns("s"), len(house.journal))

    ran_out(await house.ask("s"), "2 turns")

    await unchanged(house, before)
    assert (await house.ask("other")).status == 200


async def test_turns_in_flight_count(open_house: OpenHouse, words: Words) -> None:
    """Otherwise all of a burst would pass; a turn that was aborted gives its place back."""
    house = await open_house(sim={"token_delay_s": 0.02})
    await made(house, max_turns=2)
    calls = [house.ask("s", [user(str(at))], words.said("One.")) for at in range(5)]

    answers = await asyncio.gather(*calls)

    assert sorted(answer.status for answer in answers) == [200, 200, 429, 429, 429]
    for answer in answers:
        if answer.status == 429:
            ran_out(answer, "2 turns")
    assert len(house.journal) == len(await house.turns("s")) == 2


async def test_choices_share_what_is_left(house: House, words: Words) -> None:
    """Each is a turn, and each gets its part of the tokens; they are taken all or none."""
    await made(house, max_turns=4, max_completion_tokens=20)

    taken = await house.ask("s", HELLO, words.said("A longer answer."), n=3)
    before = (await house.turns("s"), len(house.journal))
    ran_out(
        await house.ask("s", HELLO, n=2), "4 turns does not suffice for n=2 answers: 3 are taken, 0 in flight, 1 left"
    )
    await unchanged(house, before)

    assert (taken.status, taken.body["usage"]["completion_tokens"]) == (200, 18)
    assert [params["max_tokens"] for params in house.params] == [6, 6, 6]
    assert (await house.ask("s", HELLO, words.said("Hi."))).body["usage"]["completion_tokens"] == 2


async def test_a_turn_that_its_client_gave_up_costs_no_turn(open_house: OpenHouse, words: Words) -> None:
    """Its tokens were sampled, and count."""
    house = await open_house(sim={"token_delay_s": 0.005})
    await made(house, max_turns=1)
    async with waiting(house, "s", HELLO, words.said("A long answer. " * 50)):
        await asyncio.sleep(0.2)
    await house.idle()
    state = await house.shown("s")
    assert (state["turns"], state["aborted_turns"], state["turns_in_flight"]) == (0, 1, 0)
    assert state["completion_tokens"] > 0

    assert (await house.ask("s", HELLO, words.said("Hi."))).status == 200


async def test_more_answers_than_there_are_tokens_are_told_so(house: House) -> None:
    """Nothing is used up: fewer would be served."""
    await made(house, max_completion_tokens=2)

    refused = await house.ask("s", HELLO, n=3)

    ran_out(refused, "completion tokens does not suffice for n=3 answers: 0 of 2 are taken, 2 left")
    assert "used up" not in refused.error["message"]
    assert (await house.ask("s", HELLO, n=2)).status == 200


async def test_completion_tokens_run_out(house: House, words: Words) -> None:
    """The last answer is cut to what is left; what follows is refused, whatever it asks for."""
    script = words.said("Twelve or so.")
    await made(house, max_completion_tokens=len(script) + 3)
    first = await house.ask("s", HELLO, script)
    assert first.body["choices"][0]["finish_reason"] == "stop"

    second = await house.ask("s", HELLO, script, max_tokens=10)

    assert [params["max_tokens"] for params in house.params] == [len(script) + 3, 3]
    assert second.body["choices"][0]["finish_reason"] == "length"
    assert second.body["usage"]["completion_tokens"] == 3
    before = (await house.turns("s"), len(house.journal))
    ran_out(await house.ask("s", HELLO, max_tokens=1), "completion tokens")
    await unchanged(house, before)


async def test_a_smaller_wish_is_kept(house: House, words: Words) -> None:
    """A budget only ever takes away; `min_tokens` gives way to it."""
    await made(house, max_completion_tokens=50, max_context_tokens=500)
    await house.ask("s", HELLO, words.said("Hi."), max_tokens=7)
    await house.ask("s", HELLO, words.said("Hi."), min_tokens=100)

    first, second = house.params
    assert first["max_tokens"] == 7
    assert second["max_tokens"] == second["min_tokens"] == 50 - len(words.said("Hi."))


async def test_context_runs_out_as_if_the_model_were_smaller(house: House, words: Words) -> None:
    """Answers are cut to the room left; a history that leaves none is refused as any model would, and compacted is taken."""
    script = words.said("Twelve or so.")
    first = await house.ask("other", HELLO, script)
    prompt_tokens = first.body["usage"]["prompt_tokens"]
    window = prompt_tokens + len(script)
    await made(house, max_context_tokens=window)
    answer = await house.ask("s", HELLO, script)
    assert house.params[-1]["max_tokens"] == len(script)
    before = (await house.turns("s"), len(house.journal))

    for history in ([*HELLO, answer.message, user("More?")], [user("x " * 50 * window)]):
        refused = await house.ask("s", history)

        assert (refused.status, refused.error["code"]) == (400, "context_length_exceeded")
        assert str(window) in refused.error["message"]
        await unchanged(house, before)
    assert (await house.ask("s", HELLO, script)).status == 200


async def test_a_session_is_shown_with_its_budget(open_house: OpenHouse) -> None:
    """What it was given, and the defaults for the rest; a session that nobody made has the defaults."""
    house = await open_house(max_context_tokens=1000, max_completion_tokens=100, max_turns=5)
    await made(house, max_turns=7, max_context_tokens=2000)
    await house.ask("spoken")

    shown = (await house.shown("s"))["budget"], (await house.shown("spoken"))["budget"]
    assert shown == (
        {"max_context_tokens": 2000, "max_completion_tokens": 100, "max_turns": 7},
        {"max_context_tokens": 1000, "max_completion_tokens": 100, "max_turns": 5},
    )


@pytest.mark.parametrize("path", ["s", None])
async def test_defaults_hold_for_every_session(open_house: OpenHouse, words: Words, path: str | None) -> None:
    """Named or not; sessions do not share them."""
    house = await open_house(max_turns=1)
    answer = await house.ask(path, HELLO, words.said("Hi."))
    again = [*HELLO, answer.message, user("More.")]

    ran_out(await house.ask(path, again), "1 turns")
    assert (await house.ask("other")).status == 200


async def test_a_first_call_over_the_budget_makes_no_session(open_house: OpenHouse) -> None:
    """As every refused first call."""
    house = await open_house(max_context_tokens=3)

    assert (await house.ask("s")).status == 400
    assert (await house.send("GET", "/sessions/s")).status == 404


async def test_an_ill_budget_makes_no_session(house: House) -> None:
    """The error names the field."""
    refused = await house.send("POST", "/sessions", session_id="s", budget={"max_turns": 0})

    assert (refused.status, refused.error["param"]) == (400, "budget.max_turns")
    assert (await house.send("GET", "/sessions/s")).status == 404
