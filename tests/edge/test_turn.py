"""The life of a turn when nothing goes wrong: what the engine read and sampled is what the trainer gets."""

import asyncio
import random
from collections import Counter
from itertools import pairwise

import orjson
import pytest

from gateway.sim import logprob
from tests.edge.house import HELLO, IM_END, TOOLS, Answer, House, Json, OpenHouse, Words, extends, until, user, waiting

VERSIONS = ["0.20.2", "0.32.0"]


async def converse(house: House, session: str, scripts: list[list[int]]) -> list[Answer]:
    """Three turns: a thoughtful tool call, an answer to its result, and an answer to the user's thanks."""
    messages: list[Json] = [{"role": "system", "content": "Be brief."}, user("How is the weather in Zürich?")]
    answers: list[Answer] = []
    for script in scripts:
        answer = await house.ask(session, messages, script, tools=TOOLS, headers={"X-Request-Id": f"r{len(answers)}"})
        assert answer.status == 200, answer.body
        answers.append(answer)
        calls = answer.message.get("tool_calls") or ()
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "12°"} for call in calls]
        messages += [answer.message, *(results or [user("Thanks!")])]
    return answers


def three_turns(words: Words) -> list[list[int]]:
    """What the engine says in `converse`."""
    called = words.called("They ask for Zürich.", "weather", {"city": "Zürich"})
    return [called, words.said("It is 12 degrees."), words.said("You are welcome.")]


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_prompt_extends_the_last_and_the_row_is_what_the_engine_sent(
    open_house: OpenHouse, words: Words, version: str
) -> None:
    """Three turns with thinking and a tool call become one row: every id and logprob as the engine gave it."""
    house, scripts = await open_house(sim={"version": version}), three_turns(words)

    await converse(house, "s", scripts)

    prompts = house.prompts
    for (prompt, script), following in pairwise(zip(prompts, scripts, strict=True)):
        assert extends(following[0], prompt + script)
    (row,) = await house.rows("s")
    assert row["token_ids"] == prompts[-1] + scripts[-1]
    sampled = [
        (token_id, value)
        for token_id, value, mask in zip(row["token_ids"], row["logprobs"], row["loss_mask"], strict=True)
        if mask
    ]
    assert sampled == [
        (token_id, logprob(at, token_id))
        for prompt, script in zip(prompts, scripts, strict=True)
        for at, token_id in enumerate(script, len(prompt))
    ]
    assert [(t["start"], t["end"]) for t in row["turns"]] == [
        (len(prompt), len(prompt + script)) for prompt, script in zip(prompts, scripts, strict=True)
    ]
    assert {value for value, mask in zip(row["logprobs"], row["loss_mask"], strict=True) if not mask} == {0.0}


@pytest.mark.parametrize("version", VERSIONS)
async def test_turns_say_how_they_came_about(open_house: OpenHouse, words: Words, version: str) -> None:
    """The first is rendered, the others bridged from their parents; each names its engine and its ids' versions."""
    house, scripts = await open_house(sim={"version": version}), three_turns(words)

    await converse(house, "s", scripts)

    turns = await house.turns("s")
    assert [turn["how"] for turn in turns] == ["rendered", "bridged", "bridged"]
    assert [turn["reason"] for turn in turns] == ["first_turn", None, None]
    assert [turn["parent_id"] for turn in turns] == [None, turns[0]["turn_id"], turns[1]["turn_id"]]
    assert [turn["completion_tokens"] for turn in turns] == [len(script) for script in scripts]
    assert {turn["status"] for turn in turns} == {"complete"}
    for turn in turns:
        (span,) = turn["policy_versions"]
        assert (span["version"], span["start"], span["end"]) == ("unknown", 0, turn["completion_tokens"])


async def test_the_client_gets_the_message_that_was_sampled(house: House, words: Words) -> None:
    """Reasoning, calls, text, usage and the finish reason are in OpenAI's shape."""
    first, second, _ = await converse(house, "s", three_turns(words))

    (call,) = first.message["tool_calls"]
    assert call["function"] == {"name": "weather", "arguments": '{"city": "Zürich"}'}
    assert call["id"].startswith("call_")
    assert first.message["reasoning_content"].strip() == "They ask for Zürich."
    assert first.message["content"] is None
    assert first.body["choices"][0]["finish_reason"] == "tool_calls"
    assert second.message["content"] == "It is 12 degrees."
    assert second.body["choices"][0]["finish_reason"] == "stop"
    usage = second.body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens"] == len(house.prompts[1])


async def test_the_engine_is_asked_for_logprobs_in_its_own_order_and_never_for_those_of_the_prompt(
    house: House, words: Words
) -> None:
    """Each call streams, asks for one logprob an id, names the stop ids, and asks for no echo."""
    await converse(house, "s", three_turns(words))

    for entry, params in zip(house.journal, house.params, strict=True):
        assert entry.body["stream"] is True
        assert params["logprobs"] == 1
        assert IM_END in params["stop_token_ids"]
        assert not {"prompt_logprobs", "echo"} & {*params, *entry.body}


@pytest.mark.parametrize(
    ("asked", "left"), [({"max_tokens": 7}, False), ({"max_completion_tokens": 7, "max_tokens": 9}, False), ({}, True)]
)
async def test_max_tokens_is_always_sent(house: House, words: Words, asked: Json, left: bool) -> None:
    """The caller's limit, or else what the prompt leaves of the engine's context."""
    await house.ask("s", HELLO, words.said("Hi."), **asked)

    (params,), (prompt,) = house.params, house.prompts
    assert type(params["max_tokens"]) is int
    assert params["max_tokens"] == (40960 - len(prompt) if left else 7)


async def test_a_limit_beyond_the_context_is_lowered_to_what_is_left(house: House, words: Words) -> None:
    """Prompt and completion together never exceed what the engine takes."""
    await house.ask("s", HELLO, words.said("Hi."), max_tokens=10**9)

    (params,), (prompt,) = house.params, house.prompts
    assert params["max_tokens"] == 40960 - len(prompt)


async def test_the_request_id_reaches_the_engine_and_comes_back(house: House, words: Words) -> None:
    """The caller's, or one of ours: never none."""
    given = await house.ask("s", HELLO, words.said("Hi."), headers={"X-Request-Id": "trace-1"})
    minted = await house.ask("s", HELLO, words.said("Hi."))

    assert given.headers["x-request-id"] == "trace-1"
    assert minted.headers["x-request-id"]
    assert [entry.request_id for entry in house.journal] == ["trace-1", minted.headers["x-request-id"]]


async def test_the_answer_names_its_turn(house: House, words: Words) -> None:
    """`x-turn-id` is the id under which the trainer finds the turn."""
    answer = await house.ask("s", HELLO, words.said("Hi."))

    (turn,) = await house.turns("s")
    assert answer.headers["x-turn-id"] == turn["turn_id"]
    assert answer.headers["x-session-id"] == "s"


async def test_an_answer_that_runs_out_of_tokens_says_so(house: House, words: Words) -> None:
    """Its turn is complete, and the next one still carries its ids."""
    script = words.said("A long answer.")
    answer = await house.ask("s", HELLO, script, max_tokens=3)
    after = await house.ask("s", [*HELLO, answer.message, user("Go on.")], words.said("Yes."))

    assert answer.body["choices"][0]["finish_reason"] == "length"
    assert after.status == 200
    first, second = await house.turns("s")
    assert (first["finish_reason"], first["completion_tokens"], first["status"]) == ("length", 3, "complete")
    assert second["parent_id"] == first["turn_id"]


async def test_two_calls_at_once_become_siblings(open_house: OpenHouse, words: Words) -> None:
    """Neither waits for the other, and neither is lost."""
    house = await open_house(sim={"token_delay_s": 0.02})
    first = await house.ask("s", HELLO, words.said("Hi."))
    messages = [*HELLO, first.message, user("And?")]

    answers = await asyncio.gather(*(house.ask("s", messages, words.said(text)) for text in ("One.", "Two.")))

    assert [answer.message["content"] for answer in answers] == ["One.", "Two."]
    root, *siblings = await house.turns("s")
    assert [turn["parent_id"] for turn in siblings] == [root["turn_id"]] * 2
    assert len(await house.rows("s")) == 2


async def test_a_stalled_call_delays_nobody(house: House, words: Words) -> None:
    """While one waits for an engine that says nothing, others of its session and of other sessions are answered."""
    house.faults.inject("stall", after=2)
    async with waiting(house, "s", HELLO, words.said("Never to end.")) as stalled:
        await until(lambda: house.journal and len(house.journal[0].emitted) == 2)
        answers = await asyncio.wait_for(
            asyncio.gather(*(house.ask(session, HELLO, words.said("Hi.")) for session in "sabc")), timeout=3
        )

        assert [answer.status for answer in answers] == [200] * 4
        assert await house.metric("gateway_turns_in_flight") == 1
        assert not stalled.done()
    await house.idle()


@pytest.mark.process
async def test_what_sixteen_calls_and_random_hang_ups_leave_is_true(open_house: OpenHouse, words: Words) -> None:
    """Each row is, id by id and logprob by logprob, what the engine read and sampled; aborted turns are prefixes."""
    house = await open_house(sim={"token_delay_s": 0.003})
    chance = random.Random(16)
    first = await house.ask("s", HELLO, words.said("Hi."))

    async def agent(name: int) -> None:
        messages = [*HELLO, first.message, user(f"Agent {name}.")]
        for step in range(3):
            call = house.ask("s", messages, words.said(f"Step {step} of {name}."))
            try:
                answer = await asyncio.wait_for(call, timeout=chance.choice([0.02, 0.05, 0.1, 5, 5, 5]))
            except TimeoutError:
                continue
            assert answer.status == 200
            messages += [answer.message, user("Next.")]

    await asyncio.gather(*map(agent, range(16)))
    await house.idle()

    await until_recorded(house)
    read_and_sampled = [
        (tuple(prompt), tuple(entry.emitted)) for prompt, entry in zip(house.prompts, house.journal, strict=True)
    ]
    contexts = {prompt + emitted for prompt, emitted in read_and_sampled}
    turns, rows = await house.turns("s"), await house.rows("s")
    assert {turn["status"] for turn in turns} == {"complete", "aborted"}
    trained: Counter[str] = Counter()
    for row in rows:
        for part in row["turns"]:
            ids, scores = (row[column][part["start"] : part["end"]] for column in ("token_ids", "logprobs"))
            assert part["status"] == "complete"
            assert tuple(row["token_ids"][: part["end"]]) in contexts
            assert scores == [logprob(at, token_id) for at, token_id in enumerate(ids, part["start"])]
            assert row["loss_mask"][part["start"] : part["end"]] == [int(part["trained"])] * len(ids)
            trained[part["turn_id"]] += part["trained"]
    complete = {turn["turn_id"]: turn["delivered"] for turn in turns if turn["status"] == "complete"}
    lost = {name for name in complete if not trained[name]}  # an answer that was made when its agent had just left
    assert dict.fromkeys(complete.keys() - lost, 1) == +trained
    assert not any(complete[name] for name in lost)
    by_prompt = Counter(len(prompt) for prompt, _ in read_and_sampled)
    assert not Counter(turn["prompt_tokens"] for turn in turns) - by_prompt
    aborted = {turn["turn_id"] for turn in turns if turn["status"] == "aborted"}
    assert not aborted & {turn["parent_id"] for turn in turns}


async def until_recorded(house: House) -> None:
    """Wait until every call that sampled something is a turn: those of clients that left are recorded after them."""

    async def all_there() -> bool:
        recorded = await house.metric("gateway_turns_total")
        return recorded <= len(house.journal) and recorded == len(await house.turns("s"))

    await until(all_there)


async def test_a_row_says_which_reasoning_its_prompts_hold(house: House, words: Words) -> None:
    """Bridges keep all that was sampled; a full render shows what the model's template does."""
    thought = [*words.ids("<think>"), *words.spelt("\nhm\n"), *words.ids("</think>"), *words.said("\n\nYes.")]
    first = await house.ask("s", HELLO, thought)
    messages = [*HELLO, first.message, user("And?")]
    second = await house.ask("s", messages, words.said("So."))
    messages += [second.message, {"role": "assistant", "content": "theirs"}, user("Well?")]
    await house.ask("s", messages, words.said("No."))

    kept, rendered = await house.rows("s")
    assert "hm" in words.text(house.prompts[1])
    assert kept["thinking_retention"] == "all"
    assert "hm" not in words.text(house.prompts[2])
    assert rendered["thinking_retention"] == "template"


async def test_text_that_cannot_fit_is_refused_before_it_is_tokenized(open_house: OpenHouse, words: Words) -> None:
    """Wherever it stands: in a message, in the arguments of a call, in a tool."""
    house = await open_house(sim={"max_model_len": 64})
    long = "x" * 64 * 200
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": long}}
    tool = {"type": "function", "function": {"name": "f", "description": long}}
    for fields in (
        {"messages": [user(long)]},
        {"messages": [*HELLO, {"role": "assistant", "tool_calls": [call]}, user("?")]},
        {"messages": HELLO, "tools": [tool]},
    ):
        answer = await house.call("POST", "/v1/chat/completions", data=orjson.dumps({"model": "sim", **fields}))
        assert answer.status == 400
        assert answer.error["code"] == "context_length_exceeded"
        assert "cannot fit" in answer.error["message"]
    assert house.journal == []


async def test_an_engine_is_asked_for_events_of_the_size_that_the_operator_wants(open_house: OpenHouse) -> None:
    """`--stream-interval-tokens`, for answers that are streamed and for others."""
    house = await open_house(stream_interval_tokens=3)
    await house.ask("s")
    await house.ask("s", stream=True)
    assert [params["stream_interval"] for params in house.params] == [3, 3]
