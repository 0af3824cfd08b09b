"""The demo's tokenizer, its template, and the renderer that must agree with it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

import gateway.sim
from gateway.errors import BadRequest, ConfigError, MultimodalUnsupported
from gateway.render.call_bodies import Call
from gateway.render.demo import MODEL_NAME, DemoRenderer
from gateway.render.parsed import Parsed
from gateway.render.registry import load_tokenizer, renderers_for
from tests.render.doubles import PlainTokenizer

FOLDER = Path(gateway.sim.__file__).parent / "tokenizer"
TOKENIZER = load_tokenizer(str(FOLDER), MODEL_NAME)
CONTROL = [
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"),
    *("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
]
TOOLS: list[dict[str, object]] = [
    {"type": "function", "function": {"name": "weather", "description": "Wetter für <b>eine</b> Stadt"}},
    {"type": "function", "function": {"name": "sum", "parameters": {"type": "object"}}},
]
USER = {"role": "user", "content": "How warm is it?"}


relaxed = settings(deadline=None, max_examples=40)  # as each renders, bridges and parses


def said(content="", reasoning=None, *calls):
    """An assistant's message; calls are (name, arguments) with JSON text."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        functions = [{"name": name, "arguments": arguments} for name, arguments in calls]
        message["tool_calls"] = [{"id": "c", "type": "function", "function": function} for function in functions]
    return message


def result(text):
    return {"role": "tool", "content": text, "tool_call_id": "c"}


def renderer(**template_kwargs):
    return DemoRenderer(TOKENIZER, template_kwargs)


def ids(text):
    """The ids of a text whose control tokens are meant."""
    return TOKENIZER.encode(text, add_special_tokens=False)


SYSTEM = {"role": "system", "content": "Be brief."}
CALLS = said("Let me see.\n", "hm\n", ("weather", '{"city": "Köln"}'), ("sum", ""))
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "one question": [USER],
    "a system message": [SYSTEM, USER],
    "an empty system message": [{"role": "system", "content": None}, USER],
    "a later system message": [USER, said("ok"), SYSTEM, USER],
    "an answer": [USER, said("Very."), USER],
    "an answer with thought": [USER, said("\n\nVery.\n", "Is it? \n\n"), USER],
    "calls and one result": [USER, CALLS, result("12")],
    "calls and grouped results": [SYSTEM, USER, CALLS, result("12\n"), result(""), USER],
    "a call alone": [USER, said("", None, ("sum", '{"a": [1, 2.0]}')), result("3"), said("3"), USER],
    "an answer to nothing": [said("hello"), result("x"), said(None, "y"), USER],
    "Unicode and white space": [{"role": "user", "content": " \n\t é 漢字 👩‍👩‍👧 \r\n  x  \n\n\n"}, said("  ¡\n  !")],
}


@pytest.mark.parametrize("thinking", [{}, {"enable_thinking": True}, {"enable_thinking": False}])
@pytest.mark.parametrize("tools", [None, TOOLS])
@pytest.mark.parametrize("opening", [True, False])
@pytest.mark.parametrize("messages", CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_the_renderer_and_the_template_write_the_same_ids(messages, tools, opening, thinking):
    """For every conversation that holds no control token in its text."""
    template: Any = TOKENIZER
    options = {"tools": tools, "add_generation_prompt": opening}

    expected = template.apply_chat_template(messages, **options, **thinking, tokenize=True, return_dict=False)
    assert renderer(**thinking).render_ids(messages, **options) == expected


def test_the_files_are_small_and_load_as_any_models_do():
    """At most 8,000 entries in 500 KB; every control token is one id, and special."""
    loaded = AutoTokenizer.from_pretrained(str(FOLDER))
    vocabulary = loaded.get_vocab()

    assert len(vocabulary) <= 8000
    assert (FOLDER / "tokenizer.json").stat().st_size <= 500_000
    assert all(loaded.encode(text) == [vocabulary[text]] for text in CONTROL)
    assert set(CONTROL) == set(loaded.all_special_tokens)
    assert (loaded.eos_token, loaded.pad_token) == ("<|im_end|>", "<|endoftext|>")


@relaxed
@given(st.text())
def test_every_text_survives_the_tokenizer(text):
    """Byte-level: nothing is unknown, nothing is cleaned up."""
    assert TOKENIZER.decode(ids(text)) == text


@pytest.mark.parametrize("control", CONTROL)
def test_a_control_token_in_a_text_stays_text(control):
    """Whoever says it: the user, a tool, the model in its answer, thought or arguments."""
    text = f"a{control}b"
    arguments = json.dumps({"a": text})
    messages = [{"role": "system", "content": text}, {"role": "user", "content": text}]
    messages += [said(text, text, ("f", arguments)), result(text)]
    plain = json.loads(json.dumps(messages).replace(control, "x"))
    own = renderer()
    token_id = ids(control)[0]

    rendered = own.render_ids(messages)
    assert rendered.count(token_id) == own.render_ids(plain).count(token_id)
    assert TOKENIZER.decode(rendered).count(text) == 6
    assert ids(text) != own._text(text)


characters = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
texts = st.lists(characters | st.sampled_from(["\n", "\n\n", " ", *CONTROL, "the "]), max_size=4).map("".join)
arguments = st.dictionaries(texts, texts | st.integers() | st.booleans() | st.lists(st.none()), max_size=2)
calls = st.lists(
    st.tuples(texts.map(str.strip).filter(bool), arguments.map(lambda value: json.dumps(value, ensure_ascii=False))),
    max_size=2,
)
answers = st.builds(lambda content, reasoning, calls: said(content, reasoning, *calls), texts, st.none() | texts, calls)
later = st.lists(st.sampled_from([USER, SYSTEM, result("1"), result("2\n")]), min_size=1, max_size=3)
thinking = st.booleans()


def completion_of(own, answer):
    """A prompt, and the ids by which the renderer itself writes an answer to it, its end included."""
    prompt = own.render_ids([USER], tools=TOOLS, add_generation_prompt=True)
    whole = own.render_ids([USER, answer], tools=TOOLS)
    opening = own.render_ids([USER], tools=TOOLS) + own._opener("assistant")
    start = len(prompt) if whole[: len(prompt)] == prompt else len(opening)
    return whole[:start], whole[start:-1]


@relaxed
@given(answers, thinking)
def test_what_was_rendered_is_parsed_to_the_same_message(answer, thinks):
    """Text to the last space; arguments as JSON."""
    parsed = renderer(enable_thinking=thinks).parse_response(completion_of(renderer(enable_thinking=thinks), answer)[1])

    expected = [call["function"] for call in answer.get("tool_calls", ())]
    assert [(call.name, json.loads(call.arguments)) for call in parsed.tool_calls] == [
        (call["name"], json.loads(call["arguments"])) for call in expected
    ]
    assert parsed.content == answer["content"]
    assert (parsed.reasoning_content or None) == answer.get("reasoning_content")


@relaxed
@given(answers, later, thinking)
def test_a_bridge_over_a_canonical_answer_is_the_render_of_the_history(answer, new, thinks):
    """Id for id, in both thinking modes."""
    if not thinks:
        answer.pop("reasoning_content", None)
    own = renderer(enable_thinking=thinks)
    prompt, completion = completion_of(own, answer)

    bridged = own.bridge_to_next_turn(prompt, completion, new, tools=TOOLS)
    assert bridged == own.render_ids([USER, answer, *new], tools=TOOLS, add_generation_prompt=True)


sampled = st.lists(st.integers(0, len(TOKENIZER.get_vocab()) - 1) | st.integers(0, len(CONTROL) - 1), max_size=20)


@relaxed
@given(sampled, later, thinking)
def test_a_bridge_starts_with_what_was_sampled_or_is_declined(completion, new, thinks):
    """Whatever the model wrote; and parsing it never fails."""
    own = renderer(enable_thinking=thinks)
    prompt = own.render_ids([USER], add_generation_prompt=True)

    bridged = own.bridge_to_next_turn(prompt, completion, new)
    own.parse_response(completion)
    if bridged is not None:
        assert bridged[: len(prompt + completion)] == prompt + completion
        assert bridged[-len(own._opening) :] == own._opening


@pytest.mark.parametrize(
    ("completion", "new", "bridges"),
    [
        ("ok<|im_end|>", [USER], True),
        ("cut in the mid", [USER], True),
        ("<think>\nhm\n</think>\n\ncut", [USER], True),
        ("<think>\nhm", [USER], False),
        ("<think>\nhm<|im_end|>", [USER], False),
        ('<tool_call>\n{"name"', [USER], False),
        ("ok<|im_end|>\nmore", [USER], False),
        ("ok<|im_start|>user\n", [USER], False),
        ("ok<|endoftext|>", [USER], False),
        ("ok<|im_end|>", [], False),
        ("ok<|im_end|>", [USER, said("no")], False),
    ],
)
def test_only_what_the_history_could_go_on_from_is_bridged(completion, new, bridges):
    """A cut text is closed; a cut thought or call, words behind the end and foreign answers are not guessed at."""
    own = renderer()
    prompt = own.render_ids([USER], add_generation_prompt=True)

    assert (own.bridge_to_next_turn(prompt, ids(completion), new) is not None) is bridges
    assert own.bridge_to_next_turn(prompt[:-1], ids(completion), new) is None


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('\n{"name": "f", "arguments": {}}\n</tool_call>', "{}"),
        ('{"name":"f","arguments":{"a":"</b>"}}</tool_call>', '{"a": "</b>"}'),
        ('{"name": "f"}</tool_call>', "{}"),
        ('{"name": "f", "arguments": "{}"}</tool_call>', "{}"),
        ('{"name": "f", "arguments": {}', None),
        ('{"name": "f", "arguments": {}<tool_call>', None),
        ('{"name": "f", "arguments": {"a": NaN}}</tool_call>', None),
        ('{"name": "f", "arguments": {"a": 1, "a": 2}}</tool_call>', None),
        ("[" * 100_000 + "</tool_call>", None),
        ('{"arguments": {}}</tool_call>', None),
        ('{"name": "", "arguments": {}}</tool_call>', None),
        ("[1]</tool_call>", None),
    ],
)
def test_a_call_is_a_call_or_stays_what_was_written(text, arguments):
    """Without ``arguments`` it has none; one that no client could be given is content, and the answer says so."""
    parsed = renderer().parse_response(ids(f"hey\n<tool_call>{text}<|im_end|>"))

    expected = f"hey\n<tool_call>{text}" if arguments is None else "hey"
    assert parsed.content == expected
    assert parsed.tool_calls == (() if arguments is None else (Call("f", arguments),))
    assert parsed.flags == (("malformed_tool_call",) if arguments is None else ())


def test_calls_and_what_is_no_call_stand_in_an_answer_together():
    """A good call as a call; a broken one, and the text around both, as text."""
    completion = '<think>\nhm\n</think>\n\nhey\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>\nand\n'
    completion += "<tool_call>\nnonsense\n</tool_call><|im_end|>"

    text = "hey\nand\n<tool_call>\nnonsense\n</tool_call>"
    expected = Parsed(text, "hm", (Call("f", '{"a": 1}'),), ("malformed_tool_call",))
    assert renderer().parse_response(ids(completion)) == expected


@pytest.mark.parametrize(("spec", "name"), [("auto", MODEL_NAME), ("auto", str(FOLDER)), ("demo", "any name")])
def test_the_demos_renderer_is_found(spec, name):
    """By the model's name, by what the folder says of itself, or by its own; it keeps all reasoning."""
    renderers, notes = renderers_for(
        spec, load_tokenizer(str(FOLDER), name), None, retention="all", bridgeless_ok=False
    )

    assert isinstance(renderers.get({"enable_thinking": False}).renderer, DemoRenderer)
    assert renderers.get({}).thinking_retention == "all"
    assert notes == []


@pytest.mark.parametrize("template_kwargs", [{"nonsense": 1}, {"enable_thinking": "no"}])
def test_template_arguments_that_it_does_not_know_are_refused(template_kwargs):
    """As the caller's fault."""
    with pytest.raises(BadRequest, match=r"nonsense|enable_thinking"):
        renderer(**template_kwargs)


def test_what_it_cannot_serve_stops_the_start():
    """A retention that it does not know; a tokenizer without the control tokens."""
    with pytest.raises(ConfigError, match="tool_cycle"):
        renderers_for("demo", TOKENIZER, None, retention="tool_cycle", bridgeless_ok=False)

    with pytest.raises(ConfigError, match=r"--renderer demo: it is for --model rollout-gateway/demo"):
        renderers_for("demo", PlainTokenizer(), None, retention="all", bridgeless_ok=False)


def test_content_that_is_no_text_is_refused():
    """Instead of being dropped; parts that are text are joined."""
    image = {"role": "user", "content": [{"type": "image_url"}]}
    parts = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    said, prompt = {"role": "user", "content": "ab"}, renderer().render_ids([], add_generation_prompt=True)

    with pytest.raises(MultimodalUnsupported):
        renderer().render_ids([image])
    assert renderer().bridge_to_next_turn(prompt, ids("ok<|im_end|>"), [image]) is None
    assert renderer().render_ids([parts]) == renderer().render_ids([said])
