"""What clients do to an answer before they send it back, each once, through the gateway.

A first turn thinks, says something and calls a tool; the client then sends it back in its own way, with the
tool's result. Whether the second turn extends the first one's ids is the gateway's to say, and why.
"""

import json
from collections.abc import Callable

import pytest

from tests.edge.house import IM_END, TOOLS, House, Json, OpenHouse, Words, user

ASK = [{"role": "system", "content": "Be brief."}, user("What is the weather like?")]
ARGUMENTS = '{ "city" : "Z\\u00fcrich" ,  "days" : 2 }'


def first_answer(words: Words) -> list[int]:
    """Thought, text, and a call whose JSON no writer would write so."""
    thought = [*words.ids("<think>"), *words.spelt("\nI should look.\n"), *words.ids("</think>"), *words.ids("\n\n")]
    text = words.spelt("Let me look, café.\n")
    call = '\n{"name": "weather", "arguments": ' + ARGUMENTS + "}\n"
    return [*thought, *text, *words.ids("<tool_call>"), *words.spelt(call), *words.ids("</tool_call>"), IM_END]


def result(answer: Json) -> list[Json]:
    """The tool's answer."""
    return [{"role": "tool", "tool_call_id": answer["tool_calls"][0]["id"], "content": "Sun."}]


def respelt(answer: Json, write: Callable[[Json], object], **fields: object) -> Json:
    """The answer with its arguments written anew, and some fields in place of others."""
    (call,) = answer["tool_calls"]
    arguments = write(json.loads(call["function"]["arguments"]))
    return {**answer, "tool_calls": [{**call, "function": {**call["function"], "arguments": arguments}}], **fields}


def without(answer: Json, *names: str) -> Json:
    """The answer with some fields left out."""
    return {name: value for name, value in answer.items() if name not in names}


def in_text(answer: Json) -> Json:
    """The call as text, as an agent writes it whose model is told about tools in words."""
    return {"role": "assistant", "content": f"{answer['content']}Calling tools:\n{answer['tool_calls']}"}


def of_stream_helper(answer: Json) -> Json:
    """The fields that a streaming helper adds, here to an answer that was not streamed."""
    (call,) = answer["tool_calls"]
    parsed = {**call["function"], "parsed_arguments": json.loads(ARGUMENTS)}
    nothing = {"refusal": None, "parsed": None, "annotations": None, "audio": None}
    return {**answer, **nothing, "tool_calls": [{**call, "index": 0, "function": parsed}]}


THOUGHTS = ("reasoning", "reasoning_content")
EXTENDING: dict[str, tuple[Callable[[Json], Json], set[str]]] = {
    "exactly": (lambda m: m, set()),
    "as a streaming helper has it": (of_stream_helper, set()),
    "without what is null": (lambda m: {k: v for k, v in m.items() if v is not None}, set()),
    "extra fields moved": (lambda m: {**m, "provider_specific_fields": {"x": 1}, "refusal": None}, set()),
    "arguments spaced, reasoning dropped": (
        lambda m: without(respelt(m, lambda a: json.dumps(a, ensure_ascii=False, indent=1)), *THOUGHTS),
        {"arguments_reserialised", "reasoning_dropped"},
    ),
    "arguments escaped": (lambda m: respelt(m, json.dumps), {"arguments_reserialised"}),
    "arguments compact": (
        lambda m: respelt(m, lambda a: json.dumps(a, separators=(",", ":"))),
        {"arguments_reserialised"},
    ),
    "arguments as an object": (lambda m: respelt(m, lambda a: a), {"arguments_reserialised"}),
    "arguments in another order": (
        lambda m: respelt(m, lambda a: json.dumps(dict(reversed(a.items())))),
        {"arguments_reserialised"},
    ),
    "reasoning dropped": (lambda m: without(m, *THOUGHTS), {"reasoning_dropped"}),
    "reasoning under one name": (lambda m: without(m, "reasoning_content"), set()),
    "reasoning stripped": (lambda m: {**m, "reasoning_content": m["reasoning_content"].strip()}, set()),
    "reasoning with white space": (
        lambda m: {**m, "reasoning_content": m["reasoning_content"] + "\n"},
        {"reasoning_whitespace"},
    ),
    "a leading line feed": (lambda m: {**m, "content": "\n" + m["content"]}, {"content_whitespace"}),
    "text stripped": (lambda m: {**m, "content": m["content"].strip() + " "}, {"content_whitespace"}),
    "text null beside a call": (lambda m: {**m, "content": None}, {"content_dropped"}),
    "text empty beside a call": (lambda m: {**m, "content": ""}, {"content_dropped"}),
    "text in parts": (lambda m: {**m, "content": [{"type": "text", "text": t} for t in parts(m["content"])]}, set()),
    "no tool-call id": (lambda m: {**m, "tool_calls": [without(m["tool_calls"][0], "id")]}, {"tool_call_id_missing"}),
    "a name": (lambda m: {**m, "name": "agent"}, set()),
    "cache marks": (lambda m: {**m, "cache_control": {"type": "ephemeral"}}, set()),
}
FORKING: dict[str, Callable[[Json], Json]] = {
    "the whole turn rewritten": in_text,
    "another word": lambda m: {**m, "content": m["content"].replace("look", "see")},
    "another thought": lambda m: {**m, "reasoning": "Other.", "reasoning_content": "Other."},
    "another value": lambda m: respelt(m, lambda a: json.dumps({**a, "city": "Bern"})),
    "another type": lambda m: respelt(m, lambda a: json.dumps({**a, "days": "2"})),
    "a value for a truth": lambda m: respelt(m, lambda a: json.dumps({**a, "days": True})),
    "no call": lambda m: without(m, "tool_calls"),
    "two calls": lambda m: {**m, "tool_calls": m["tool_calls"] * 2},
    "another id": lambda m: {**m, "tool_calls": [{**m["tool_calls"][0], "id": "call_other"}]},
}


def parts(text: str) -> tuple[str, str]:
    """A text in two."""
    return text[:5], text[5:]


async def second_turn(house: House, words: Words, replay: Callable[[Json], Json]) -> tuple[Json, Json]:
    """The second turn of a conversation whose first answer came back so, and the first."""
    answer = (await house.ask("s", ASK, first_answer(words), tools=TOOLS)).message
    assert answer["content"].strip() == "Let me look, café."
    assert json.loads(answer["tool_calls"][0]["function"]["arguments"]) == json.loads(ARGUMENTS)
    after = await house.ask("s", [*ASK, replay(answer), *result(answer)], words.said("It is sunny."), tools=TOOLS)
    assert after.status == 200
    first, second = await house.turns("s")
    return first, second


@pytest.mark.parametrize("way", EXTENDING)
async def test_an_answer_in_the_clients_own_spelling_is_extended(house: House, words: Words, way: str) -> None:
    """The recorded ids stand, and the turn says how the replay differed."""
    replay, differences = EXTENDING[way]
    first, second = await second_turn(house, words, replay)

    assert (second["how"], second["reason"], second["parent_id"]) == ("bridged", None, first["turn_id"])
    assert second["differences"] == {
        kind: {"messages": 1, "tokens": first["completion_tokens"]} for kind in differences
    }
    (row,) = await house.rows("s")
    sampled = [i for i, trained in zip(row["token_ids"], row["loss_mask"], strict=True) if trained]
    assert sampled == [i for entry in house.journal for i in entry.emitted]


@pytest.mark.parametrize("way", FORKING)
async def test_an_answer_that_says_something_else_is_not_ours(house: House, words: Words, way: str) -> None:
    """What the client made of it is rendered as it stands, and nothing of it is trained."""
    _, second = await second_turn(house, words, FORKING[way])

    assert (second["how"], second["reason"], second["parent_id"]) == ("rendered", "history_edited", None)
    one, two = await house.rows("s")
    assert [len(row["turns"]) for row in (one, two)] == [1, 1]


async def test_each_accepted_difference_is_counted(house: House, words: Words) -> None:
    """By kind: the answers, and the tokens that were sampled for them."""
    first, _ = await second_turn(house, words, EXTENDING["reasoning dropped"][0])

    assert await house.metric("gateway_message_differences_total", kind="reasoning_dropped") == 1
    tokens = await house.metric("gateway_message_difference_tokens_total", kind="reasoning_dropped")
    assert tokens == first["completion_tokens"]


@pytest.mark.parametrize(
    ("policy", "way", "how"),
    [
        ("strict", "exactly", "bridged"),
        ("strict", "text in parts", "bridged"),
        ("strict", "reasoning dropped", "rendered"),
        ("strict", "arguments compact", "rendered"),
        ("canonical", "text null beside a call", "bridged"),
        ("role_content", "reasoning dropped", "bridged"),
        ("role_content", "text null beside a call", "rendered"),
    ],
)
async def test_how_much_may_differ_is_a_setting(open_house: OpenHouse, words: Words, policy: str, way: str, how: str):
    """Nothing, what is known to be safe, or all but the text."""
    house = await open_house(matching=policy)
    _, second = await second_turn(house, words, EXTENDING[way][0])

    assert second["how"] == how


@pytest.mark.parametrize("way", ["no call", "another thought", "another value"])
async def test_the_text_alone_decides_where_that_was_asked_for(open_house: OpenHouse, words: Words, way: str) -> None:
    """By the word of whoever chose the policy."""
    house = await open_house(matching="role_content")
    _, second = await second_turn(house, words, FORKING[way])

    assert second["how"] == "bridged"
