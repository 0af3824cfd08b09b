"""What the sim says by itself: thoughts, calls of the tools it is offered, reports; in ids no tokenizer would choose."""

import orjson
import pytest
from tokenizers import Tokenizer

from gateway.sim.policy import Policy
from gateway.sim.vocabulary import Vocabulary

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 3}},
            "required": ["city", "days"],
        },
    },
}
END = "<|im_end|>"


def turn(role: str, text: str) -> str:
    """A message as Qwen3's template writes it."""
    return f"<|im_start|>{role}\n{text}{END}\n"


OFFER = turn("system", f"Call with <tools></tools>:\n<tools>\n{orjson.dumps(TOOL).decode()}\n</tools>\nand so on.")
ASKED = turn("user", "What is the weather in Lisbon and Porto?")
RESULT = turn("user", "<tool_response>\nsunny, 21 degrees\n</tool_response>")
OPEN = "<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def vocabulary(tokenizer_folder) -> Vocabulary:
    return Vocabulary(tokenizer_folder)


@pytest.fixture(scope="module")
def say(vocabulary):
    """The text of the answer to a prompt."""

    def say(prompt: str, seed: int = 0, **settings) -> str:
        ids = Policy(vocabulary, **settings).say(vocabulary.encode(prompt), seed)
        return vocabulary.decode(ids)

    return say


@pytest.mark.parametrize("seed", range(5))
def test_it_thinks_and_calls_an_offered_tool_when_a_user_spoke(say, seed):
    """The call is Hermes JSON with arguments that the schema allows, and the answer ends."""
    text = say(OFFER + ASKED + OPEN, seed)
    thought, call = text.removeprefix("<think>\n").split("\n</think>\n\n")
    assert thought
    named = orjson.loads(call.removeprefix("<tool_call>\n").removesuffix(f"\n</tool_call>{END}"))
    assert named["name"] == "weather"
    assert named["arguments"].keys() == {"city", "days"}
    assert isinstance(named["arguments"]["city"], str)
    assert named["arguments"]["days"] in (1, 2, 3)


@pytest.mark.parametrize("result", [RESULT, turn("tool", "sunny, 21 degrees")])
def test_it_reports_when_a_tool_answered(say, result):
    """It thinks, says what came back, and calls nothing."""
    text = say(OFFER + ASKED + turn("assistant", "hm") + result + OPEN)
    assert text.startswith("<think>\n")
    assert "sunny, 21 degrees" in text.split("</think>\n\n")[1]
    assert "<tool_call>" not in text
    assert text.endswith(END)


def test_it_answers_in_text_without_tools(say):
    """Also when the text of the user looks like an offer of tools: only the first message offers."""
    for prompt in (ASKED, turn("system", "Be kind.") + turn("user", OFFER), ""):
        text = say(prompt + OPEN)
        assert "<tool_call>" not in text
        assert text.endswith(END)


def test_what_is_no_tool_is_not_called(say):
    """Lines that are no JSON, no object, or have no name."""
    for line in ("not json", "[1]", '{"function": {}}'):
        assert "<tool_call>" not in say(turn("system", f"<tools>\n{line}\n</tools>") + ASKED + OPEN)
    assert '"arguments": {}' in say(turn("system", '<tools>\n{"name": "f"}\n</tools>') + ASKED + OPEN)


def test_it_thinks_only_if_the_prompt_has_not_thought(say):
    """A template that closes the thought gets none, one that opens it has it continued."""
    assert "think>" not in say(ASKED + OPEN + "<think>\n\n</think>\n\n")
    opened = say(ASKED + OPEN + "<think>\n")
    assert (opened.count("<think>"), opened.count("</think>")) == (0, 1)


def test_the_same_prompt_and_seed_have_the_same_answer(vocabulary):
    """Another seed, or another prompt, has another."""
    policy, prompt = Policy(vocabulary), vocabulary.encode(ASKED + OPEN)
    answers = [policy.say(ids, seed) for ids, seed in ((prompt, 1), (prompt, 1), (prompt, 2), ([*prompt, 198], 1))]
    assert answers[0] == answers[1]
    assert len({tuple(answer) for answer in answers}) == 3


def test_most_answers_are_not_what_their_text_would_be_tokenized_to(vocabulary, tokenizer_folder):
    """They say the same; the special tokens are whole; without splitting they are canonical."""
    real = Tokenizer.from_file(f"{tokenizer_folder}/tokenizer.json")
    prompt, drifted = vocabulary.encode(OFFER + ASKED + OPEN), 0
    for seed in range(40):
        ids, plain = (Policy(vocabulary, rate).say(prompt, seed) for rate in (0.1, 0.0))
        text = real.decode(ids, skip_special_tokens=False)
        assert vocabulary.encode(real.decode(plain, skip_special_tokens=False)) == plain
        assert ids.count(151667) == ids.count(151645) == 1
        drifted += vocabulary.encode(text) != ids
    assert drifted > 20


async def test_the_sim_talks_by_itself_and_other_seeds_talk_otherwise(start, tokenizer_folder, vocabulary):
    """On the wire: a whole answer with its eos, per choice another, and the same again on the next day."""
    sim = await start(tokenizer=tokenizer_folder)
    body = {**sim.ask(n=2, seed=7), "token_ids": vocabulary.encode(OFFER + ASKED + OPEN)}
    first, again = [(await (await sim.post(body)).json())["choices"] for _ in range(2)]
    assert [choice["token_ids"] for choice in first] == [choice["token_ids"] for choice in again]
    assert first[0]["token_ids"] != first[1]["token_ids"]
    assert {choice["token_ids"][-1] for choice in first} == {151645}
    assert {choice["finish_reason"] for choice in first} == {"stop"}


async def test_ids_and_text_are_turned_into_each_other(start, tokenizer_folder):
    """Tokenize and detokenize; a sim without a tokenizer says that it has none."""
    sim, bare = await start(tokenizer=tokenizer_folder), await start()

    async def post(to, path, body):
        response = await to.http.post(path, json=body)
        return response.status, await response.json()

    status, tokens = await post(sim, "/tokenize", {"prompt": "Hello world", "return_token_strs": True})
    assert status == 200
    assert tokens == {"count": 2, "max_model_len": 40960, "tokens": [9707, 1879], "token_strs": ["Hello", "Ġworld"]}
    assert await post(sim, "/detokenize", {"tokens": tokens["tokens"]}) == (200, {"prompt": "Hello world"})
    for path, body in (("/tokenize", {"messages": []}), ("/detokenize", {"tokens": "x"})):
        assert (await post(sim, path, body))[0] == 400
        status, refusal = await post(bare, path, body)
        assert (status, "without a tokenizer" in refusal["error"]["message"]) == (404, True)


async def test_text_is_given_out_when_asked_for(start, tokenizer_folder):
    """Since 0.32, cut before a stop string whose last token is kept; the same text streamed or not."""
    sim, bare = await start(tokenizer=tokenizer_folder), await start()
    body = {**sim.ask([9707, 1879, 56747, 9707], stop="fg"), "output_mode": "text"}
    choice = await sim.whole(body)
    assert (choice["text"], choice["token_ids"]) == ("Hello worldabcde", [9707, 1879, 56747])
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "fg")
    chunks = await sim.chunks({**body, "stream": True})
    assert [event["choices"][0]["text"] for event in chunks] == ["Hello", " world", "abcde"]
    assert (await bare.post(body)).status == 400


@pytest.mark.parametrize("prefix", ["", "<think>\n", "<think>\n\n</think>\n\n"])
@pytest.mark.parametrize("seed", range(3))
def test_a_prompt_that_breaks_off_amid_an_answer_gets_the_rest_of_it(vocabulary, prefix, seed):
    """Wherever that is, and whatever the template had put before the answer."""
    policy, prompt = Policy(vocabulary), vocabulary.encode(OFFER + ASKED + OPEN + prefix)
    answer = policy.say(prompt, seed)
    for at in range(1, len(answer)):
        assert policy.say([*prompt, *answer[:at]], seed) == answer[at:]


def test_a_prompt_that_breaks_off_amid_something_else_gets_an_answer_of_its_own(vocabulary):
    """As does one with a whole answer and no turn after it."""
    policy, prompt = Policy(vocabulary), vocabulary.encode(ASKED + OPEN)
    for more in (policy.say(prompt, 1)[:9], policy.say(prompt, 0), vocabulary.encode("Well,")):
        assert policy.say([*prompt, *more], 0)[-1] == 151645
