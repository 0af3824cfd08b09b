"""What a template does with tool-call ids, and the form that some demand."""

import re

import pytest

from gateway.core.types import Message, ToolCall
from gateway.render.call_ids import in_form
from gateway.render.options import Options
from gateway.render.registry import load_tokenizer, renderers_for
from gateway.render.translator import Translator
from tests.render.doubles import Call, LetterRenderer, PlainRenderer, PlainTokenizer, Response, read

NINE = "[A-Za-z0-9]{9}"
MINTED = "call_0123456789abcdef01234567"

TEMPLATE = """{% for m in messages %}{{ m.role }}: {{ m.content }}
{% if m.tool_calls is defined and m.tool_calls %}{% for c in m.tool_calls %}CALL{% endfor %}{% endif %}
{% if m.role == 'tool' %}RESULT{% endif %}{% endfor %}"""
CALL = "{% if c.id | length != 9 %}{{ raise_exception('nine letters, please') }}{% endif %}[{{ c.id }}]"


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder):
    """One whose template is the test's to choose."""
    return load_tokenizer(tokenizer_folder, "my/finetune")


def letters(ids):
    return "".join(map(chr, ids))


@pytest.mark.parametrize(
    ("renderer", "learnt"),
    [
        (PlainRenderer(), "hidden"),
        (LetterRenderer(), "shown"),
        (LetterRenderer(NINE), "demanded"),
        (LetterRenderer("call_0"), "refused"),
    ],
)
def test_what_becomes_of_tool_call_ids_is_learnt_by_rendering(renderer, learnt):
    """Nothing else about the renderer need be known."""
    assert Translator(renderer, PlainTokenizer()).learn().call_ids == learnt


@pytest.mark.parametrize(
    ("call", "result", "learnt"),
    [
        ("{{ c.function.name }}", "", "hidden"),
        ("[{{ c.id }}]", "", "shown"),
        ("", "[{{ m.tool_call_id }}]", "shown"),
        (CALL, "", "demanded"),
        ("{{ raise_exception('no tools') }}", "", "refused"),
    ],
)
def test_a_template_of_the_models_own_is_found_out(tokenizer, call, result, learnt):
    """Rendered by the real backend, its refusals included."""
    tokenizer.chat_template = TEMPLATE.replace("CALL", call).replace("RESULT", result)
    renderers, notes = renderers_for(
        "prime", tokenizer, None, retention="all", bridgeless_ok=True, options=Options(name="default")
    )

    assert renderers.get({}).call_ids == learnt
    assert sum("tool call" in note.replace("-", " ") for note in notes) == (learnt != "hidden")


def test_an_id_in_the_demanded_form_is_the_same_every_time_and_nobody_elses():
    """Calls and results must meet, in this process and the next one."""
    ids = [f"call_{number:024x}" for number in range(10_000)]
    formed = {in_form(call_id) for call_id in ids}

    assert len(formed) == len(ids)
    assert all(re.fullmatch(NINE, call_id) for call_id in formed)
    assert in_form(MINTED) == "2bn4ubhh2"
    assert re.fullmatch(NINE, in_form(""))


@pytest.mark.parametrize("own", ["a1B2c3D4e", "000000000", "ABCDEFGHI"])
def test_an_id_that_has_the_form_is_left_alone(own):
    """It is the model's own."""
    assert in_form(own) == own


@pytest.mark.parametrize("other", ["abcdefgh", "abcdefghij", "abcdefgh\n", "abcdefgé9", "abc_efghi", "\udcff"])
def test_an_id_that_only_looks_like_the_form_is_replaced(other):
    """Letters are a to z here, and nine are nine."""
    assert re.fullmatch(NINE, in_form(other))
    assert in_form(other) != other


def test_where_a_form_is_demanded_every_id_has_it_and_the_models_own_are_kept():
    """In renders and in bridges alike; the call and its result have one id."""
    translator = Translator(LetterRenderer(NINE), PlainTokenizer()).learn()
    calls = (ToolCall(MINTED, "f", "{}"), ToolCall(MINTED, "g", "{}", own_id="a1B2c3D4e"))
    results = [Message("tool", "x", tool_call_id=MINTED), Message("tool", "y", tool_call_id="a1B2c3D4e")]

    answer = Message("assistant", tool_calls=calls)
    whole = letters(translator.render([answer, *results], ()))
    bridged = letters(translator.bridge([97], [ord("$")], results, (), [answer]))

    formed = in_form(MINTED)
    assert whole.startswith(f"assistant: [{formed} f {{}}][a1B2c3D4e g {{}}]$\n")
    assert whole.endswith(f"tool {formed}: x\ntool a1B2c3D4e: y\nassistant: ")
    assert bridged.endswith(f"tool {formed}: x\ntool a1B2c3D4e: y\nassistant: ")


def test_where_none_is_demanded_ids_are_shown_as_they_are():
    """Kimi's carry the name of the function."""
    translator = Translator(LetterRenderer(), PlainTokenizer()).learn()
    said = translator.render([Message("tool", "x", tool_call_id="functions.look:0")], ())

    assert letters(said).startswith("tool functions.look:0: x")


def test_an_empty_id_is_none_of_the_models_own():
    """It could not tell one call from another."""
    renderer = PlainRenderer(Response(tool_calls=[Call("look", {}, id="")]))
    answer = read(Translator(renderer, PlainTokenizer()), [1], [1], (), lambda: MINTED)

    assert answer.message.tool_calls[0] == ToolCall(MINTED, "look", "{}", own_id=None)
