"""What is bridged at all, before any template is asked, and for whom; see `test_hostile_templates` for the rest."""

from copy import copy

import pytest

from gateway.errors import RendererError
from gateway.render.bridge import CertifiedBridge, Proof
from gateway.render.certification import Certifications, Due
from gateway.render.demo import MODEL_NAME
from gateway.render.discovery import AnswerFormat
from gateway.render.formats import DEMO
from gateway.render.protocol import MessageDict
from gateway.render.recollection import Recollection
from gateway.render.registry import load_tokenizer
from gateway.render.template import TemplateRenderer
from tests.render.hostile import SOUND, chatml

USER: MessageDict = {"role": "user", "content": "Hi"}
MORE: MessageDict = {"role": "user", "content": "More"}
OK: MessageDict = {"role": "assistant", "content": "ok"}


@pytest.fixture(scope="module")
def demo():
    return load_tokenizer(MODEL_NAME, MODEL_NAME)


@pytest.fixture
def renderer(demo):
    return rendering(demo, SOUND)


def rendering(demo, template, **options):
    tokenizer = copy(demo)
    tokenizer.chat_template = template
    return TemplateRenderer(tokenizer, {}, answers=AnswerFormat("demo", "given", tokenizer, DEMO), **options)


def ids_only(renderer, **options):
    """A bridge over what a renderer writes, without its text."""

    class Ids:
        render_ids, decode = staticmethod(renderer.render_ids), staticmethod(renderer.decode)

    known: Certifications[Proof] = Certifications(**options)
    stops, parse = renderer.get_stop_token_ids(), renderer.parse_response
    return CertifiedBridge(Ids(), stops, known, retention=None, parse=parse)


def prompted(renderer, *messages, tools=None):
    return renderer.render_ids(list(messages), tools=tools, add_generation_prompt=True)


@pytest.mark.parametrize(
    ("sampled", "new"),
    [
        ("ok<|im_end|>", []),
        ("ok<|im_end|>", [MORE, OK]),
        ("ok<|im_end|>", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]),
        ("ok<|im_end|>", [{"role": "user", "content": None}]),
        ("ok", [MORE]),
        ("", [MORE]),
        ("ok<|im_end|>\nfoo", [MORE]),
        ("ok<|im_end|>\nfoo<|im_end|>", [MORE]),
        ("ok<|endoftext|>", [MORE]),
    ],
)
def test_what_no_template_could_go_on_with_is_not_bridged(renderer, sampled, new):
    """Nothing new, an answer that was not sampled here, an image, an answer that was cut or went on behind its end."""
    prompt = prompted(renderer, USER)

    assert renderer.bridge_to_next_turn(prompt, renderer.encode(sampled), new, history=[USER, OK]) is None


@pytest.mark.parametrize("history", [[], [OK], [USER, MORE], [MORE]])
def test_a_history_that_ends_in_no_answer_or_has_no_beginning_is_not_bridged(renderer, history):
    """It is not what was sampled from."""
    sampled = renderer.encode("ok<|im_end|>")
    assert renderer.bridge_to_next_turn(prompted(renderer, USER), sampled, [MORE], history=history) is None


def test_a_prompt_that_does_not_end_as_its_history_is_written_is_not_bridged(renderer):
    """Nor where it is known by its ids alone, of a shape that is certified."""
    sampled, history, prompt = renderer.encode("ok<|im_end|>"), [USER, OK], prompted(renderer, USER)
    bridge = ids_only(renderer)

    assert renderer.bridge_to_next_turn(prompt[:-1], sampled, [MORE], history=history) is None
    assert bridge.bridge(prompt[:-1], sampled, [MORE], None, history) is None
    assert bridge.bridge(prompt, sampled, [MORE], None, history) is not None
    assert bridge.bridge(prompt[:-1], sampled, [MORE], None, history) is None


def test_a_caller_of_the_four_methods_alone_is_bridged_from_prompts_that_were_made_here(demo):
    """Those that were rendered and those that were bridged; of others it is not known what they say."""
    renderer = rendering(demo, SOUND, recollection=Recollection())
    call = '<tool_call>\n{"name": "look", "arguments": {"at": "x"}}\n</tool_call><|im_end|>'
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    prompt = prompted(renderer, USER, tools=tools)
    result = {"role": "tool", "content": "out", "tool_call_id": "c1"}
    second = renderer.bridge_to_next_turn(prompt, renderer.encode(call), [result], tools=tools)
    third = renderer.bridge_to_next_turn(second, renderer.encode("ok<|im_end|>"), [MORE], tools=tools)

    said = {**OK, "content": "", "tool_calls": [{"function": {"name": "look", "arguments": '{"at": "x"}'}}]}
    whole = renderer.render_ids([USER, said, result, OK, MORE], tools=tools, add_generation_prompt=True)
    assert renderer.decode(third) == renderer.decode(whole)
    assert renderer.bridge_to_next_turn(prompt[1:], renderer.encode("ok<|im_end|>"), [MORE], tools=tools) is None
    assert renderer.bridge_to_next_turn(prompt, renderer.encode("ok<|im_end|>"), [MORE]) is None


def test_without_a_recollection_nothing_is_kept_of_prompts(renderer):
    """As in the gateway, where a session that is deleted is gone."""
    prompt, sampled = prompted(renderer, USER), renderer.encode("ok<|im_end|>")
    assert renderer.bridge_to_next_turn(prompt, sampled, [MORE]) is None


def test_no_shape_is_bridged_that_is_refused_or_revoked(demo):
    """Though its text would do."""
    renderer = rendering(demo, SOUND)
    sampled, history, prompt = renderer.encode("ok<|im_end|>"), [USER, OK], prompted(renderer, USER)
    assert renderer.bridge_to_next_turn(prompt, sampled, [MORE], history=history)
    (shape,) = renderer.certifications._standings
    renderer.certifications.refuse(shape, Due("proof", "a proof"))

    assert renderer.bridge_to_next_turn(prompt, sampled, [MORE], history=history) is None


def test_a_source_that_fails_is_asked_again(demo):
    """An engine that is away tells nothing of a shape."""
    renderer = rendering(demo, SOUND)
    bridge, prompt = ids_only(renderer), prompted(renderer, USER)
    sampled, history = renderer.encode("ok<|im_end|>"), [USER, OK]
    away = [True]

    def render_ids(messages, **options):
        if away:
            raise RendererError("away")
        return renderer.render_ids(messages, **options)

    bridge._source.render_ids = render_ids
    assert bridge.bridge(prompt, sampled, [MORE], None, history) is None
    assert sum(bridge.certifications.shapes().values()) == 0
    away.clear()
    assert bridge.bridge(prompt, sampled, [MORE], None, history) is not None


def test_a_close_of_a_new_message_is_not_taken_for_that_of_the_answer(demo):
    """Where answers are not closed: what is in between would be lost."""
    renderer = rendering(demo, chatml(close="{{ '<|im_end|>' if message.role != 'assistant' else '.' }}\n"))
    known: Certifications[Proof] = Certifications()
    ends = renderer.encode("<|im_end|>")
    bridge = CertifiedBridge(renderer, ends, known, retention=None, parse=renderer.parse_response)
    history, prompt = [USER, OK], prompted(renderer, USER)

    assert bridge.bridge(prompt, renderer.encode("ok<|im_end|>"), [MORE], None, history) is None
    ids = ids_only(renderer)
    ids._stop_ids = frozenset(ends)
    assert ids.bridge(prompt, renderer.encode("ok<|im_end|>"), [MORE], None, history) is None


@pytest.mark.parametrize(("between", "bridges"), [("", True), ("{{ '...' if not loop.last }}", False)])
def test_calls_that_a_template_does_not_close_are_bridged_if_new_messages_add_nothing_else(demo, between, bridges):
    """As DeepSeek-V3's does not close the first."""
    close = f"{{% if message.tool_calls %}}{between}{{% else %}}<|im_end|>{{% endif %}}"
    renderer = rendering(demo, chatml(close=close))
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}
    history, result = [USER, {**OK, "content": "", "tool_calls": [call]}], {**MORE, "role": "tool"}
    prompt, sampled = (
        prompted(renderer, USER),
        renderer.encode('<tool_call>{"name": "look", "arguments": {"at": "x"}}</tool_call><|im_end|>'),
    )
    bridge = renderer.bridge_to_next_turn(prompt, sampled, [result], history=history)

    assert (bridge is not None) is bridges
    if bridge is not None:
        assert renderer.decode(bridge).endswith("<|im_end|><|im_start|>tool\nMore<|im_end|><|im_start|>assistant\n")
