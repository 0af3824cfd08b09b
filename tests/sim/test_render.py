"""The sim renders messages as vLLM would, and makes messages of what it said."""

import aiohttp
import pytest

from gateway.sim import RENDER_FAULTS, RENDERS

RENDER, DERENDER = "/v1/chat/completions/render", "/v1/chat/completions/derender"
HELLO = {"messages": [{"role": "user", "content": "Hello?"}]}


@pytest.fixture
async def sim(start, tokenizer_folder):
    return await start(tokenizer=tokenizer_folder)


async def ids(sim, **fields) -> list[int]:
    response = await sim.http.post(RENDER, json=HELLO | fields)
    assert response.status == 200
    return (await response.json())["token_ids"]


def called(arguments):
    function = {"name": "look", "arguments": arguments}
    return [*HELLO["messages"], {"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}]


async def test_what_is_said_of_a_message_in_several_ways_renders_to_the_same(sim):
    """Text in parts, arguments as text or object, either name of reasoning; broken arguments are none."""
    parts = [{"role": "user", "content": [{"type": "text", "text": "Hello?"}]}]
    assert await ids(sim, messages=parts) == await ids(sim)
    assert await ids(sim, messages=called({"a": 1})) == await ids(sim, messages=called('{"a":1}'))
    assert await ids(sim, messages=called("{")) == await ids(sim, messages=called(""))
    thought = [
        [*HELLO["messages"], {"role": "assistant", "content": "x", name: "Hm."}]
        for name in ("reasoning", "reasoning_content")
    ]
    assert await ids(sim, messages=thought[0]) == await ids(sim, messages=thought[1])


async def test_a_prompt_can_be_truncated_on_either_side(sim):
    """A negative number is the most that the model takes."""
    whole = await ids(sim)
    assert await ids(sim, truncate_prompt_tokens=3) == whole[-3:]
    assert await ids(sim, truncate_prompt_tokens=3, truncation_side="right") == whole[:3]
    assert await ids(sim, truncate_prompt_tokens=-1) == whole


async def test_a_template_that_refuses_is_heard(start, tmp_path, tokenizer_folder):
    """In its own words, with status 400; a template may name the tokenizer's special tokens."""
    (tmp_path / "tokenizer.json").symlink_to(f"{tokenizer_folder}/tokenizer.json")
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": {"content": "<|im_end|>"}}')
    source = (
        "{% if tools %}{{ raise_exception('no ' ~ tools | tojson) }}{% endif %}{{ strftime_now('%%') }}{{ eos_token }}"
    )
    (tmp_path / "chat_template.jinja").write_text(source)
    sim = await start(tokenizer=tmp_path)
    assert await ids(sim) == [4, 151645]
    tool = {"type": "function", "function": {"name": "look"}}
    response = await sim.http.post(RENDER, json=HELLO | {"tools": [tool]})
    words = 'no [{"type": "function", "function": {"name": "look", "description": null, "parameters": null}}]'
    assert (response.status, (await response.json())["error"]["message"]) == (400, words)


@pytest.mark.parametrize(
    "fields",
    [{"chat_template": "x"}, {"continue_final_message": True}, {"messages": None}, {"truncate_prompt_tokens": "x"}],
)
async def test_what_it_cannot_render_is_refused(sim, fields):
    assert (await sim.http.post(RENDER, json=HELLO | fields)).status == 400


async def test_without_a_tokenizer_nothing_is_rendered_or_parsed(start):
    sim = await start()
    assert (await sim.http.post(RENDER, json=HELLO)).status == 400
    answer = {"generate_response": {"choices": [{"token_ids": [1]}]}, "chat_request": HELLO}
    assert (await sim.http.post(DERENDER, json=answer)).status == 400


@pytest.mark.parametrize(("version", "status"), [("0.32.0", 403), ("0.30.0", 404), ("0.29.0", 200)])
async def test_both_routes_open_with_scale_out(start, tokenizer_folder, version, status):
    """As `generate` does: before 0.30 they are open anyway."""
    sim = await start(tokenizer=tokenizer_folder, version=version, scale_out=False)
    assert (await sim.http.post(RENDER, json=HELLO)).status == status
    answer = {"generate_response": {"choices": [{"token_ids": [9707]}]}, "chat_request": HELLO}
    assert (await sim.http.post(DERENDER, json=answer)).status == status


async def test_a_render_can_go_wrong_once(sim):
    """Refused with a status, without an answer, or with one that lacks its ids; `generate` is not touched."""
    for kind, status in (("error_503", 503), ("scale_out_disabled", 403)):
        assert await sim.inject(kind, of="render") == 200
        assert (await sim.http.post(RENDER, json=HELLO)).status == status
    sim.http.app[RENDER_FAULTS].inject("cut")
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await sim.http.post(RENDER, json=HELLO)
    sim.http.app[RENDER_FAULTS].inject("no_token_ids")
    assert await ids(sim) is None
    assert await ids(sim)
    assert await sim.inject("extra_token", of="render") == 400
    sim.http.app[RENDER_FAULTS].inject("error_503")
    await sim.http.delete("/sim/faults")
    assert await ids(sim)
    assert len(sim.http.app[RENDERS]) == 6
    assert not sim.log.entries


@pytest.mark.parametrize(
    ("text", "kwargs", "content", "reasoning", "calls"),
    [
        ("<think>Hm.</think>Hello<|im_end|>", {}, "Hello", "Hm.", []),
        ("<think>Hm", {}, None, "Hm", []),
        ("Hello", {"enable_thinking": False}, "Hello", None, []),
        ('</think>So:\n<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>', {}, "So:\n", "", ["look"]),
        ("</think><tool_call>{</tool_call>", {}, "<tool_call>{</tool_call>", "", []),
    ],
)
async def test_an_answer_is_parsed_as_qwen3s_are(sim, text, kwargs, content, reasoning, calls):
    """Thought, text and calls; a call that is no JSON stays text."""
    tokens = (await (await sim.http.post("/tokenize", json={"prompt": text})).json())["tokens"]
    asked = {"generate_response": {"choices": [{"token_ids": tokens}]}}
    asked["chat_request"] = HELLO | {"chat_template_kwargs": kwargs}
    answer = await (await sim.http.post(DERENDER, json=asked)).json()
    message = answer["choices"][0]["message"]
    assert (message["content"], message["reasoning"]) == (content, reasoning)
    assert [call["function"]["name"] for call in message.get("tool_calls", ())] == calls


@pytest.mark.parametrize("answer", [None, {"choices": [{"token_ids": []}]}])
async def test_what_is_no_answer_is_not_parsed(sim, answer):
    body = {"generate_response": answer, "chat_request": HELLO}
    assert (await sim.http.post(DERENDER, json=body)).status == 400
