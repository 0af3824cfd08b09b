"""Clients that name no session: who changed only `base_url` gets sessions, not fragments of one turn."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.edge.house import HELLO, TOOLS, Answer, House, Json, OpenHouse, Words, user

SYSTEM: Json = {"role": "system", "content": "Be brief."}


def session(answer: Answer) -> str:
    """Which session took the turn."""
    assert answer.status == 200
    return answer.headers["x-session-id"]


def after(answer: Answer, history: list[Json], *new: Json, **changed: Any) -> list[Json]:
    """A history that goes on; the answer replayed as it came, unless `changed`."""
    return [*history, answer.message | changed, *new]


async def reasons(house: House, name: str) -> list[str | None]:
    """Why the prompts of a session's turns were rendered; ``None`` where they were bridged."""
    return [turn["reason"] for turn in await house.turns(name)]


async def test_a_conversation_is_one_session(house: House, words: Words) -> None:
    """Turn by turn it is found again and bridged."""
    history, names = [*HELLO], []
    for at in range(4):
        answer = await house.ask(None, history, words.said(f"Answer {at}."))
        names.append(session(answer))
        history = after(answer, history, user(f"Question {at}?"))

    assert len(set(names)) == 1
    assert await reasons(house, names[0]) == ["first_turn", None, None, None]
    assert len(await house.rows(names[0])) == 1


async def test_a_request_without_an_answer_of_ours_always_mints(house: House, words: Words) -> None:
    """Equal first calls, one after the other or at once, and histories of others."""
    foreign = [*HELLO, {"role": "assistant", "content": "Not ours."}, user("More.")]
    first = [session(await house.ask(None, HELLO, words.said("Hi."))) for _ in range(2)]
    at_once = await asyncio.gather(*(house.ask(None, HELLO, words.said("Hi.")) for _ in range(4)))
    others = [session(await house.ask(None, foreign, words.said("Hi."))) for _ in range(2)]

    names = [*first, *map(session, at_once), *others]
    assert len(set(names)) == len(names)


async def test_each_of_many_that_began_alike_goes_on_in_its_own_session(house: House, words: Words) -> None:
    """A group of attempts at one task, more than would be asked one by one."""
    answers = [await house.ask(None, HELLO, words.said(f"Answer {at}.")) for at in range(40)]

    for answer in answers:
        history = after(answer, HELLO, user("More."), content=f" {answer.message['content']}\n")
        assert session(await house.ask(None, history, words.said("Yes."))) == session(answer)


@pytest.mark.parametrize(
    "change",
    [{"tools": TOOLS}, {"messages": [SYSTEM]}, {"model": "sim"}, {"chat_template_kwargs": {"enable_thinking": False}}],
)
async def test_what_stands_above_the_messages_may_change(house: House, words: Words, change: Json) -> None:
    """The history is still its own: one session, in which a new lineage begins."""
    first = await house.ask(None, HELLO, words.said("Hi."))
    fields = {name: value for name, value in change.items() if name != "messages"}
    history = change.get("messages", []) + after(first, HELLO, user("More."))
    second = await house.ask(None, history, words.said("Yes."), **fields)

    assert session(second) == session(first)
    back = after(second, after(first, HELLO, user("More.")), user("Again."))
    assert session(await house.ask(None, back, words.said("Yes."))) == session(first)


async def test_among_equals_the_session_whose_calls_come_back_goes_on(house: House, words: Words) -> None:
    """Ids tell twins apart; without them it is the latest."""
    script = words.called("Hm.", "weather", {"city": "Oslo"})
    twins = [await house.ask(None, HELLO, script, tools=TOOLS) for _ in range(3)]

    for twin in twins:
        (call,) = twin.message["tool_calls"]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "Rain."}
        history = after(twin, HELLO, result, content=None, reasoning_content=None, reasoning=None)
        assert session(await house.ask(None, history, words.said("Rain."), tools=TOOLS)) == session(twin)
    nameless = after(twins[0], HELLO, user("So?"), tool_calls=[{**twins[0].message["tool_calls"][0], "id": ""}])
    assert session(await house.ask(None, nameless, words.said("Rain."), tools=TOOLS)) == session(twins[-1])


ALIKE, GROUP = 8, 10
"""Attempts at one task, more than are asked one by one: so many in these tests, since each costs turns."""


@pytest.fixture
def few_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer are asked than there are in a group, as with the real bound and a larger one."""
    monkeypatch.setattr("gateway.core.prefixes._MOST_ALIKE", ALIKE)


async def group(house: House, words: Words, script: Callable[[int], list[int]]) -> list[Answer]:
    """The first answers of a group, all to one question."""
    answers = [await house.ask(None, HELLO, script(at), tools=TOOLS) for at in range(GROUP)]
    assert len({session(answer) for answer in answers}) == GROUP
    return answers


@pytest.mark.usefixtures("few_alike")
async def test_no_attempt_of_a_group_that_calls_the_same_is_split(house: House, words: Words) -> None:
    """Equal calls, equal results: the ids of the calls tell them apart, turn by turn."""
    script = words.called("Hm.", "weather", {"city": "Oslo"})
    answers = await group(house, words, lambda _: script)
    histories = [[*HELLO] for _ in answers]

    for step in range(2):
        for at, answer in enumerate(answers):
            (call,) = answer.message["tool_calls"]
            result = {"role": "tool", "tool_call_id": call["id"], "content": f"Rain {step}."}
            histories[at] = after(answer, histories[at], result)
            further = await house.ask(None, histories[at], script, tools=TOOLS)
            assert session(further) == session(answer)
            answers[at] = further
    for answer in answers:
        assert await reasons(house, session(answer)) == ["first_turn", None, None]


@pytest.mark.usefixtures("few_alike")
async def test_no_attempt_of_a_group_that_says_the_same_is_split(house: House, words: Words) -> None:
    """Short answers are equal, and what was thought before them is not."""

    def script(at: int) -> list[int]:
        thought = [*words.ids("<think>"), *words.spelt(f"\nThought {at}.\n"), *words.ids("</think>")]
        return [*thought, *words.ids("\n\n"), *words.said("4")]

    for answer in await group(house, words, script):
        assert answer.message["content"].strip() == "4"
        assert session(await house.ask(None, after(answer, HELLO, user("Sure?")), words.said("Yes."))) == session(
            answer
        )


@pytest.mark.usefixtures("few_alike")
async def test_no_attempt_of_a_group_is_split_by_a_client_that_drops_the_text_beside_calls(
    house: House, words: Words
) -> None:
    """As crewai does: texts and arguments differ, and the texts are gone."""

    def script(at: int) -> list[int]:
        call = words.called("Hm.", "weather", {"city": f"C{at}"})
        return [*words.spelt(f"Let me look {at}."), *call[call.index(words.ids("<tool_call>")[0]) :]]

    answers = await group(house, words, script)
    for answer in answers:
        assert answer.message["content"]
        (call,) = answer.message["tool_calls"]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "Rain."}
        further = await house.ask(None, after(answer, HELLO, result, content=None), words.said("Rain."), tools=TOOLS)
        assert session(further) == session(answer)


@pytest.mark.usefixtures("few_alike")
async def test_no_attempt_of_a_group_is_split_by_a_rewritten_last_answer(house: House, words: Words) -> None:
    """Its earlier answers say whose it is."""
    histories = [
        after(answer, HELLO, user("Go on."))
        for answer in await group(house, words, lambda at: words.said(f"Answer {at}."))
    ]
    seconds = [await house.ask(None, history, words.said("Yes."), tools=TOOLS) for history in histories]

    for second, history in zip(seconds, histories, strict=True):
        edited = [*history, {"role": "assistant", "content": "Rewritten."}, user("More.")]
        assert session(await house.ask(None, edited, words.said("Well."), tools=TOOLS)) == session(second)


@pytest.mark.parametrize("others", [1, 40])
@pytest.mark.parametrize(
    "mine",
    [{"tools": TOOLS}, {"messages": [SYSTEM]}, {"model": "sim"}, {"chat_template_kwargs": {"enable_thinking": False}}],
)
async def test_among_equals_the_session_that_has_seen_what_stands_above_goes_on(
    house: House, words: Words, mine: Json, others: int
) -> None:
    """Sub-agents and tasks of one wording keep to themselves, however many of the others came later."""
    fields = {name: value for name, value in mine.items() if name != "messages"}
    above = mine.get("messages", [])
    first = await house.ask(None, [*above, *HELLO], words.said("Hi."), **fields)
    later = [await house.ask(None, HELLO, words.said("Hi.")) for _ in range(others)]

    history = after(first, HELLO, user("More."))
    mine_again = await house.ask(None, [*above, *history], words.said("Yes."), **fields)
    theirs = await house.ask(None, history, words.said("Yes."))

    assert session(mine_again) == session(first)
    assert session(theirs) == session(later[-1])
    assert await reasons(house, session(first)) == ["first_turn", None]


async def test_more_returned_ids_win_over_the_lineage(house: House, words: Words) -> None:
    """An id is proof; tools may change."""
    script = words.called("Hm.", "weather", {"city": "Oslo"})
    first = await house.ask(None, HELLO, script, tools=TOOLS)
    await house.ask(None, HELLO, script, tools=TOOLS, model="sim")
    (call,) = first.message["tool_calls"]
    history = after(first, HELLO, {"role": "tool", "tool_call_id": call["id"], "content": "Rain."})

    assert session(await house.ask(None, history, words.said("Yes."), tools=TOOLS, model="sim")) == session(first)


async def test_the_session_that_knows_most_goes_on(house: House, words: Words) -> None:
    """Even when a later one knows the beginning as well."""
    first = await house.ask(None, HELLO, words.said("Hi."))
    history = after(first, HELLO, user("More."))
    second = await house.ask(None, history, words.said("Yes."))
    later = await house.ask(None, HELLO, words.said("Hi."))

    assert session(await house.ask(None, after(second, history, user("On.")))) == session(first)
    assert session(await house.ask(None, after(later, HELLO, user("Else.")))) == session(later)


async def test_who_knows_more_goes_on_though_another_was_asked_the_same_for_longer(house: House, words: Words) -> None:
    """Questions that come in the same order prove nothing; answers do."""

    async def held(*texts: str) -> tuple[str, list[Json]]:
        history, name = [user("0?")], ""
        for at, text in enumerate(texts, 1):
            answer = await house.ask(None, history, words.said(text))
            name, history = session(answer), after(answer, history, user(f"{at}?"))
        return name, history

    longer, _ = await held("A.", "B.", "other", "other still")
    better, history = await held("A.", "B.", "C.")
    assert longer != better

    foreign = {"role": "assistant", "content": "Not ours."}
    assert session(await house.ask(None, [*history, foreign, user("4?")], words.said("E."))) == better


async def test_a_rewritten_end_is_a_branch_of_the_session(house: House, words: Words) -> None:
    """An edit, a retry from the middle, or a sub-agent that replays its parent's history."""
    first = await house.ask(None, HELLO, words.said("Hi."))
    history = after(first, HELLO, user("More."))
    second = await house.ask(None, history, words.said("Yes."))
    edited = [*history, {"role": "assistant", "content": "No."}, user("Why?")]

    for branch in (history, edited, after(first, HELLO, user("Begin."))):
        assert session(await house.ask(None, branch, words.said("Well."))) == session(first) == session(second)


async def test_each_choice_leads_back_to_the_session(house: House, words: Words) -> None:
    """Whichever the client goes on with."""
    choices = await house.ask(None, HELLO, words.said("Hi."), n=3)

    for choice in choices.body["choices"]:
        history = [*HELLO, choice["message"], user("More.")]
        assert session(await house.ask(None, history, words.said("Yes."))) == session(choices)


async def test_a_retry_without_a_name_is_answered_by_what_it_repeats(house: House, words: Words) -> None:
    """It mints nothing."""
    first = await house.ask(None, HELLO, words.said("Hi."))
    again = await house.ask(None, HELLO, words.said("Hi."), headers={"x-stainless-retry-count": "1"})

    assert session(again) == session(first)
    assert again.body["id"] == first.body["id"]


async def test_a_compaction_begins_a_session(house: House, words: Words) -> None:
    """Its summary holds no answer of ours."""
    first = await house.ask(None, HELLO, words.said("Hi."))

    assert session(await house.ask(None, [user("Summary: hello, hi.")], words.said("On."))) != session(first)


@pytest.mark.parametrize("naming", ["path", "header", "body"])
async def test_a_named_session_is_never_found_by_prefix(house: House, words: Words, naming: str) -> None:
    """It is somebody's: who does not know its name is somebody else."""
    fields: Json = {"headers": {"X-Session-ID": "s"}} if naming == "header" else {}
    fields |= {"session_id": "s"} if naming == "body" else {}
    named = await house.ask("s" if naming == "path" else None, HELLO, words.said("Hi."), **fields)
    assert session(named) == "s"

    assert session(await house.ask(None, after(named, HELLO, user("More.")), words.said("Yes."))) != "s"


async def test_a_session_that_was_minted_can_be_named(house: House, words: Words) -> None:
    """The header says its name; it is still found without."""
    first = await house.ask(None, HELLO, words.said("Hi."))
    history = after(first, HELLO, user("More."))
    second = await house.ask(session(first), history, words.said("Yes."))

    assert session(await house.ask(None, after(second, history, user("On.")))) == session(first)


async def test_a_deleted_session_is_not_found(house: House, words: Words) -> None:
    """Its history is foreign from then on."""
    first = await house.ask(None, HELLO, words.said("Hi."))
    await house.send("DELETE", f"/sessions/{session(first)}")

    later = await house.ask(None, after(first, HELLO, user("More.")), words.said("Yes."))

    assert session(later) != session(first)
    assert await reasons(house, session(later)) == ["first_turn"]


async def test_a_finished_session_is_found_and_closed(house: House, words: Words) -> None:
    """To go on elsewhere would make a fragment of what was graded as a whole."""
    first = await house.ask(None, HELLO, words.said("Hi."))
    await house.send("POST", f"/sessions/{session(first)}/finish", reward=1)

    refused = await house.ask(None, after(first, HELLO, user("More.")))

    assert (refused.status, refused.error["code"]) == (409, "session_closed")


async def test_a_failed_turn_is_not_found(open_house: OpenHouse, words: Words) -> None:
    """Only what the client was answered leads back."""
    house = await open_house()
    house.faults.inject("cut", after=3)
    assert (await house.ask(None, HELLO, words.said("Hi."))).status == 503

    names = [
        session(await house.ask(None, [*HELLO, {"role": "assistant", "content": text}, user("?")])) for text in "HH"
    ]
    assert len(set(names)) == 2
