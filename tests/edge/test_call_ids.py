"""Tool-call ids end to end: the client sees ours, and the model sees none that it did not write."""

import re

import pytest

from gateway.render.call_ids import in_form
from tests.edge.house import TOOLS, House, Json, OpenHouse, user
from tests.render.doubles import LetterRenderer

NINE = "[A-Za-z0-9]{9}"
KIMI = (LetterRenderer(), ["functions.weather:0", "functions.weather:1", "functions.weather:2"])
MISTRAL = (LetterRenderer(NINE), ["a1B2c3D4e", "Zz9Yy8Xx7", "000000001"])
QUESTION = user("How is the weather?")


def said(text: str) -> list[int]:
    """An answer as the model of these tests writes it."""
    return [ord(letter) for letter in text + LetterRenderer.END]


def called(*own_ids: str) -> list[int]:
    """An answer that calls once for each id."""
    return said("".join(f'[{own} weather {{"city": "Bonn"}}]' for own in own_ids))


def prompts(house: House) -> list[str]:
    """What the model was shown, call by call."""
    return ["".join(map(chr, ids)) for ids in house.prompts]


def results(message: Json) -> list[Json]:
    """A result for each call of an answer."""
    return [{"role": "tool", "content": "rain", "tool_call_id": call["id"]} for call in message["tool_calls"]]


async def called_and_answered(house: House, own_ids: list[str]) -> list[Json]:
    """A history of three turns with two tool calls in the first of them and one in the second."""
    history = [QUESTION]
    for script in (called(*own_ids[:2]), called(own_ids[2]), said("It rains.")):
        answer = await house.ask("s", history, script, tools=TOOLS)
        assert answer.status == 200
        history += [answer.message, *(results(answer.message) if answer.message.get("tool_calls") else ())]
    return history


def shown_ids(prompt: str) -> list[str]:
    """The ids in a prompt, of calls and of results."""
    return re.findall(r"\[(\S*) ", prompt) + re.findall(r"^tool (\S*):", prompt, re.MULTILINE)


@pytest.mark.parametrize(("renderer", "own_ids"), [KIMI, MISTRAL], ids=["kimi", "mistral"])
async def test_the_model_sees_its_own_ids_and_the_client_ours(
    open_house: OpenHouse, renderer: LetterRenderer, own_ids: list[str]
) -> None:
    """Results are bridged to the calls that the model wrote."""
    house = await open_house(renderer=renderer)
    history = await called_and_answered(house, own_ids)

    calls = [call["id"] for message in history for call in message.get("tool_calls", ())]
    assert all(re.fullmatch("call_[0-9a-f]{24}", call_id) for call_id in calls)
    assert len(set(calls)) == 3
    assert [turn["how"] for turn in await house.turns("s")] == ["rendered", "bridged", "bridged"]
    assert shown_ids(prompts(house)[2]) == [*own_ids, *own_ids]


@pytest.mark.parametrize(("renderer", "own_ids"), [KIMI, MISTRAL], ids=["kimi", "mistral"])
@pytest.mark.parametrize("change", ["tools", "system", "question", "answer"])
async def test_a_history_that_is_rendered_anew_has_the_models_own_ids_too(
    open_house: OpenHouse, renderer: LetterRenderer, own_ids: list[str], change: str
) -> None:
    """Whatever broke the prefix, and whether or not the answers still count as ours."""
    house = await open_house(renderer=renderer)
    history = await called_and_answered(house, own_ids)
    system: list[Json] = [{"role": "system", "content": "Be brief."}] if change == "system" else []
    if change == "question":
        history[0] = user("How is it outside?")
    if change == "answer":
        history[1] = {**history[1], "content": "I look."}

    tools = [] if change == "tools" else TOOLS
    answer = await house.ask("s", [*system, *history, user("Sure?")], said("Yes."), tools=tools)

    assert answer.status == 200
    assert (await house.turns("s"))[-1]["how"] == "rendered"
    assert sorted(shown_ids(prompts(house)[-1])) == sorted([*own_ids, *own_ids])


async def test_a_call_that_the_client_replays_without_its_id_keeps_the_models_own(open_house: OpenHouse) -> None:
    """What was recorded is what the model sees."""
    house = await open_house(renderer=LetterRenderer())
    history = await called_and_answered(house, KIMI[1])
    for message in history:
        message["tool_calls"] = [{**call, "id": ""} for call in message.get("tool_calls", ())]

    answer = await house.ask("s", [*history, user("Sure?")], said("Yes."), tools=TOOLS)

    assert answer.status == 200
    assert shown_ids(prompts(house)[-1]) == [*KIMI[1], *KIMI[1]]


async def test_calls_that_no_engine_sampled_get_ids_in_the_demanded_form(open_house: OpenHouse) -> None:
    """An example that the agent brings along; the call and its result have one id, in every prompt the same."""
    house = await open_house(renderer=LetterRenderer(NINE))
    brought = {"id": "call_of_the_agents", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    example = [QUESTION, {"role": "assistant", "content": None, "tool_calls": [brought]}]
    example += results(example[1])
    history = [*example, QUESTION]
    first = await house.ask("s", history, called("a1B2c3D4e"))
    history += [first.message, *results(first.message)]
    second = await house.ask("s", history, said("It rains."))

    formed = in_form("call_of_the_agents")
    assert (first.status, second.status) == (200, 200)
    assert sorted(shown_ids(prompts(house)[1])) == sorted([formed, formed, "a1B2c3D4e", "a1B2c3D4e"])


@pytest.mark.parametrize("form", [".*", NINE])
async def test_where_the_model_writes_no_ids_it_is_shown_ours(open_house: OpenHouse, form: str) -> None:
    """Under the result: in the sampled call itself there is none, and nothing is put there."""
    house = await open_house(renderer=LetterRenderer(form))
    first = await house.ask("s", [QUESTION], called(""))
    second = await house.ask("s", [QUESTION, first.message, *results(first.message)], said("It rains."))

    ours = first.message["tool_calls"][0]["id"]
    assert second.status == 200
    assert shown_ids(prompts(house)[1]) == ["", ours if form == ".*" else in_form(ours)]
