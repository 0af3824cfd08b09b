"""``GET /sessions/{sid}/turns``: all that was recorded, in rows or not."""

from tests.edge.house import HELLO, House, Words, user

UNTRAINED = {"x-gateway-train": "false"}


async def test_the_ids_of_a_turn_that_is_in_no_row_can_be_read(house: House, words: Words) -> None:
    """What was left out of the rows can be looked at all the same, with what its engine said of it."""
    script = words.said("Hm.")
    await house.ask("s", HELLO, script, headers=UNTRAINED)

    assert await house.rows("s") == []
    (turn,) = (await house.call("GET", "/sessions/s/turns?ids=true")).body["data"]
    assert (turn["prompt_ids"], turn["completion_ids"]) == (house.prompts[0], script)
    assert len(turn["logprobs"]) == len(script)
    (turn,) = await house.turns("s")
    assert not turn.keys() & {"prompt_ids", "completion_ids", "logprobs"}


async def test_turns_with_their_ids_come_in_shorter_pages(house: House, words: Words) -> None:
    """Each repeats its context; together they are the same turns."""
    for number in range(21):
        await house.ask("s", [user(f"Hello, {number}!")], words.said("Hm."))

    first = (await house.call("GET", "/sessions/s/turns?ids=true")).body
    rest = (await house.call("GET", f"/sessions/s/turns?ids=true&cursor={first['next']}")).body
    assert (len(first["data"]), rest["next"]) == (20, None)
    told = [turn["turn_id"] for turn in first["data"] + rest["data"]]
    assert told == [turn["turn_id"] for turn in await house.turns("s")]


async def test_ids_are_shown_or_not(house: House, words: Words) -> None:
    """Any other word is a mistake."""
    await house.ask("s", HELLO, words.said("Hm."))

    answer = await house.call("GET", "/sessions/s/turns?ids=yes")
    assert (answer.status, answer.error["param"]) == (400, "ids")
