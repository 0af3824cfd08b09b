"""What an answer is bound to: the client's own grammar, or a call that the model's own parser reads."""

import json

import pytest

from gateway.core.types import Message, TurnRequest
from gateway.errors import BadRequest
from gateway.render import demo
from gateway.render.forcing import structured_outputs
from gateway.render.formats import DEMO, FORMATS
from gateway.render.registry import load_tokenizer, renderers_for
from tests.render.doubles import PlainTokenizer, read

ARGUMENTS = {"city": "Rome", "days": 3}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
PARAMETERS = {name: {"type": "object", "properties": {name: {"type": "integer"}}} for name in ("go", "stay")}


class MarkerTokenizer(PlainTokenizer):
    """One id a character, and one for each marker of DeepSeek's."""

    MARKERS = (
        *(f"<｜tool▁{name}｜>" for name in ("calls▁begin", "call▁begin", "sep", "call▁end", "calls▁end")),
        "｜DSML｜",
    )

    def encode(self, text, *, add_special_tokens=True):
        assert not add_special_tokens
        return [self.MARKERS.index(text)] if text in self.MARKERS else super().encode(text)


def tool(name, **function):
    """A tool of that name."""
    return {"type": "function", "function": {"name": name, **function}}


def forcing(*names, tools=()):
    """A request that forces a call of one of `names`."""
    return TurnRequest((), tools=tools or tuple(tool(name, parameters=SCHEMA) for name in names), forced_tools=names)


FORMS = {**FORMATS, "demo": DEMO}


def tag(request, form, tokenizer):
    """The structural tag that binds the answer."""
    bound = structured_outputs(request, form, tokenizer, opens_thought=False)
    assert bound is not None
    assert bound.keys() == {"structural_tag"}
    whole = json.loads(str(bound["structural_tag"]))
    assert whole["type"] == "structural_tag"
    return whole["format"]


def written(part, tokenizer):
    """A text that a part of a tag allows, its arguments `ARGUMENTS`."""
    match part:
        case {"type": "token", "token": int(token_id)}:
            return tokenizer.decode([token_id])
        case {"type": "const_string", "value": str(text)}:
            return text
        case {"type": "json_schema", "style": "json"}:
            return json.dumps(ARGUMENTS)
        case {"type": "json_schema", "style": "qwen_xml"}:
            return "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in ARGUMENTS.items())
        case {"type": "sequence", "elements": parts}:
            return "".join(written(part, tokenizer) for part in parts)
    raise AssertionError(part)


def outline(part):
    """A part of a tag in short: ids, texts, and the style of the arguments."""
    parts = part["elements"] if part["type"] == "sequence" else [part]
    return [part.get("token", part.get("value", part.get("style"))) for part in parts]


@pytest.fixture(scope="module", params=["Qwen/Qwen3-8B", "Qwen/Qwen3.5-9B", "Qwen/Qwen3.6-35B-A3B", demo.MODEL_NAME])
def family(request, named):
    """A model's renderer, and the name of the format in which it writes calls."""
    own = request.param == demo.MODEL_NAME
    tokenizer = load_tokenizer(str(demo.FOLDER), request.param) if own else named(request.param)
    renderers, _ = renderers_for("auto", tokenizer, None, retention="all", bridgeless_ok=True)
    return renderers.get({"enable_thinking": False})


def test_a_forced_call_is_one_that_the_models_own_parser_reads(family):
    """Each tool's alternative, to the letter; nothing stands around the call, and its markers are tokens."""
    translator = family
    tools = (tool("look", parameters=SCHEMA), tool("see.now-2", parameters=SCHEMA))
    bound = tag(forcing("look", "see.now-2", tools=tools), translator.form, translator.tokenizer)

    assert bound["type"] == "or"
    for name, alternative in zip(("look", "see.now-2"), bound["elements"], strict=True):
        first, *_, last = alternative["elements"]
        assert first["type"] == last["type"] == "token"
        text = written(alternative, translator.tokenizer)
        ids = [*translator.tokenizer.encode(text, add_special_tokens=False), translator.stop_ids[0]]
        answer = read(translator, ids, translator.render([Message("user", "?")], tools), tools, lambda: "call_1")
        (call,) = answer.message.tool_calls
        assert (name, ARGUMENTS) == (call.name, json.loads(call.arguments))
        assert ("", None, ()) == (answer.message.content, answer.message.reasoning, answer.flags)


@pytest.mark.parametrize("format_name", ["deepseek-v3", "deepseek-r1"])
def test_deepseeks_fenced_calls_are_forced(format_name):
    """As its template writes them, markers as tokens."""
    (begin, call, sep, end, ends), (bound) = range(5), tag(forcing("look"), FORMS[format_name], MarkerTokenizer())
    assert outline(bound) == [begin, call, "function", sep, "look\n```json\n", "json", "\n```", end, ends]


def test_deepseeks_markup_is_forced():
    """As its encoder writes it, behind the two line breaks that end an empty content."""
    dsml = 5
    assert outline(tag(forcing("look"), FORMS["deepseek-v4"], MarkerTokenizer())) == [
        *("\n\n<", dsml, "tool_calls>\n<", dsml, 'invoke name="', 'look">\n', "deepseek_xml"),
        *("</", dsml, "invoke>\n</", dsml, "tool_calls>"),
    ]


def test_a_marker_that_is_no_token_is_spelled():
    """A tokenizer of another kind still writes the same text."""
    assert outline(tag(forcing("look"), FORMS["qwen3"], PlainTokenizer())) == [
        *("<tool_call>", '\n{"name": ', '"look", "arguments": ', "json", "}\n", "</tool_call>")
    ]


def test_each_tool_has_the_arguments_of_its_own_schema():
    """An object, also where the schema leaves that open or there is none."""
    tools = (
        tool("go", parameters=PARAMETERS["go"]),
        tool("stay", parameters={"properties": {}}),
        tool("rest"),
        tool("nap", parameters=None),
        tool("run", parameters={}),
    )
    bound = tag(forcing("go", "stay", "rest", "nap", "run", tools=tools), FORMS["qwen3"], PlainTokenizer())
    schemas = [part["json_schema"] for call in bound["elements"] for part in call["elements"] if "json_schema" in part]
    assert schemas == [PARAMETERS["go"], {"type": "object", "properties": {}}, *[{"type": "object"}] * 3]


def test_only_the_named_tool_can_be_called():
    """The others are offered, and not to be had."""
    tools = tuple(tool(name, parameters=schema) for name, schema in PARAMETERS.items())
    bound = json.dumps(tag(forcing("stay", tools=tools), FORMS["demo"], PlainTokenizer()))
    assert ("stay" in bound, "go" in bound) == (True, False)


@pytest.mark.parametrize("name", ["two words", "a>b", 'a"b', "a<b", "a\n"])
@pytest.mark.parametrize("format_name", ["qwen3.5", "deepseek-v3", "deepseek-v4"])
def test_a_name_that_the_format_cannot_carry_is_refused(name, format_name):
    """Without quotes it would be read as something else; JSON can say it."""
    with pytest.raises(BadRequest, match="cannot write a call") as caught:
        structured_outputs(forcing(name), FORMS[format_name], PlainTokenizer(), opens_thought=False)
    assert caught.value.param == "tool_choice"
    assert json.dumps(name) + ', "arguments": ' in outline(tag(forcing(name), FORMS["qwen3"], PlainTokenizer()))


def test_a_call_of_an_unknown_format_is_refused():
    """The model might never be understood."""
    with pytest.raises(BadRequest, match="cannot be forced") as caught:
        structured_outputs(forcing("look"), None, PlainTokenizer(), opens_thought=False)
    assert caught.value.param == "tool_choice"


@pytest.mark.parametrize("form", [None, FORMS["qwen3"]], ids=["unknown", "qwen3"])
def test_the_clients_own_grammar_is_taken_as_it_is(form):
    """It binds the text, for which no format is needed."""
    asked = {"json": SCHEMA}
    bound = structured_outputs(TurnRequest((), constraint=asked), form, PlainTokenizer(), opens_thought=False)
    assert bound == asked


@pytest.mark.parametrize("request_", [TurnRequest((), constraint={"regex": "a"}), forcing("look")])
def test_a_prompt_that_opens_a_thought_cannot_be_bound(request_):
    """The grammar would be that of the thought; the caller reads how to go without one."""
    with pytest.raises(BadRequest, match="enable_thinking") as caught:
        structured_outputs(request_, FORMS["qwen3"], PlainTokenizer(), opens_thought=True)
    assert caught.value.param == "chat_template_kwargs"


@pytest.mark.parametrize("opens_thought", [False, True])
def test_an_answer_that_is_not_to_be_bound_is_free(opens_thought):
    """Whatever the model is."""
    free = TurnRequest((), tools=(tool("look"),))
    assert structured_outputs(free, None, PlainTokenizer(), opens_thought=opens_thought) is None


class ChannelTokenizer(PlainTokenizer):
    """One that has the token of formats which wrap what they say."""

    def encode(self, text, *, add_special_tokens=True):
        return [7] if text == "<|channel|>" else super().encode(text)


def test_an_answer_that_is_wrapped_in_channels_is_not_bound():
    """Bound from the first token on it would be in none; a format that is known is taken at its word."""
    asked = TurnRequest((), constraint={"regex": "a"})
    with pytest.raises(BadRequest, match="wraps its answers"):
        structured_outputs(asked, None, ChannelTokenizer(), opens_thought=False)
    assert structured_outputs(asked, FORMS["qwen3"], ChannelTokenizer(), opens_thought=False) == {"regex": "a"}
