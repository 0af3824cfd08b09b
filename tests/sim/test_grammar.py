"""Under a grammar the sim says what the grammar allows, or that it cannot; and ignores one just as vLLM does."""

import orjson
import pytest

from gateway.sim.vocabulary import Vocabulary

ASKED = "<|im_start|>user\nWhat is the weather in Lisbon and Porto?<|im_end|>\n<|im_start|>assistant\n"
CITY = {"type": "object", "properties": {"city": {"enum": ["Lisbon", "Porto"]}}, "required": ["city"]}
CALL, CALLED, END = 151657, 151658, 151645


@pytest.fixture(scope="module")
def vocabulary(tokenizer_folder) -> Vocabulary:
    return Vocabulary(tokenizer_folder)


@pytest.fixture
def say(start, tokenizer_folder, vocabulary):
    """The ids that a sim says under a grammar, its end left out; the prompt's thought is `ended` or not."""

    async def say(grammar, *, ended=True, version="0.32.0", prompt=ASKED, seed=0) -> list[int]:
        sim = await start(tokenizer=tokenizer_folder, version=version)
        body = {**sim.ask(structured_outputs=grammar, seed=seed), "token_ids": vocabulary.encode(prompt)}
        *ids, end = (await sim.whole({**body, "reasoning_ended": ended}))["token_ids"]
        assert end == END
        return ids

    return say


def tagged(part) -> dict[str, object]:
    """A structural tag, as vLLM takes it."""
    return {"structural_tag": orjson.dumps({"type": "structural_tag", "format": part}).decode()}


def text(value) -> dict[str, object]:
    """The part of a structural tag that is this text."""
    return {"type": "const_string", "value": value}


ARGUMENTS = {"type": "json_schema", "json_schema": CITY, "style": "json"}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("schema", [CITY, orjson.dumps(CITY).decode()])
async def test_json_follows_its_schema(say, vocabulary, schema, seed):
    """In ids that no tokenizer chose, as ever."""
    said = orjson.loads(vocabulary.decode(await say({"json": schema, "regex": None}, seed=seed)))
    assert (said.keys(), said["city"] in ("Lisbon", "Porto")) == ({"city"}, True)


async def test_any_object_or_one_of_the_choices_is_said(say, vocabulary):
    """Whatever it is, it is one."""
    assert isinstance(orjson.loads(vocabulary.decode(await say({"json_object": True}))), dict)
    assert vocabulary.decode(await say({"choice": ["yes", "no"]})) in ("yes", "no")


@pytest.mark.parametrize("seed", range(4))
async def test_a_structural_tag_is_followed_part_by_part(say, vocabulary, seed):
    """Tokens by their ids, whole; one of several alternatives."""
    named = [
        {"type": "sequence", "elements": [text(f'{{"name": "{name}", "arguments": '), ARGUMENTS, text("}")]}
        for name in ("go", "look")
    ]
    parts = [{"type": "token", "token": CALL}, {"type": "or", "elements": named}, text("\n")]
    ids = await say(tagged({"type": "sequence", "elements": [*parts, {"type": "token", "token": CALLED}]}), seed=seed)

    assert (ids[0], ids[-1]) == (CALL, CALLED)
    call = orjson.loads(vocabulary.decode(ids[1:-1]))
    assert (call["name"] in ("go", "look"), call["arguments"].keys()) == (True, {"city"})


@pytest.mark.parametrize(
    "grammar",
    [
        {"regex": "a+"},
        {"grammar": 'root ::= "a"'},
        {"choice": []},
        {"json": "{"},
        {"json": "[]"},
        {"structural_tag": "{}"},
        tagged({"type": "any_text"}),
        tagged({"type": "or", "elements": []}),
        tagged({"type": "token", "token": "<tool_call>"}),
        tagged({**ARGUMENTS, "style": "qwen_xml"}),
    ],
)
async def test_a_grammar_that_the_sim_cannot_apply_is_refused(start, tokenizer_folder, grammar):
    """It is never passed over in silence; in a stream the refusal is an event, as vLLM has it."""
    sim = await start(tokenizer=tokenizer_folder)
    body = {**sim.ask(structured_outputs=grammar), "reasoning_ended": True}
    response = await sim.post(body)
    assert (response.status, (await response.json())["error"]["type"]) == (400, "BadRequestError")
    (event,) = await sim.chunks({**body, "stream": True})
    assert event["error"]["code"] == 400


async def test_a_sim_without_a_tokenizer_refuses_every_grammar(start):
    """It would not know what it says."""
    sim = await start()
    response = await sim.post({**sim.ask(structured_outputs={"choice": ["a"]}), "reasoning_ended": True})
    assert (response.status, "without a tokenizer" in (await response.text())) == (400, True)


@pytest.mark.parametrize(
    ("how", "bound"),
    [
        ({}, True),
        ({"ended": False}, False),
        ({"version": "0.31.0"}, False),
        ({"version": "0.31.0", "prompt": f"{ASKED}<think>\n\n</think>\n\n"}, True),
        ({"ended": False, "prompt": f"{ASKED}<think>\n"}, False),
    ],
)
async def test_a_grammar_waits_for_the_end_of_a_thought(say, vocabulary, how, bound):
    """As in a vLLM with a reasoning parser, and before 0.32 no word of the client's changes that."""
    said = vocabulary.decode(await say({"choice": ["yes", "no"]}, **how))
    assert (said in ("yes", "no")) is bound


async def test_a_script_is_said_whatever_the_grammar(start, tokenizer_folder):
    """A test that scripts an answer means it."""
    sim = await start(tokenizer=tokenizer_folder)
    body = {**sim.ask([5, 6, END], structured_outputs={"regex": "a"}), "reasoning_ended": True}
    assert (await sim.whole(body))["token_ids"] == [5, 6, END]
