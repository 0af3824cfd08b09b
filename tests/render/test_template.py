"""The backend for any chat template, on those of real models."""

from copy import copy, deepcopy
from functools import cache

import pytest

from gateway.core.ledger import Ledger
from gateway.core.prompt import build_prompt
from gateway.core.types import (
    Answer,
    Completion,
    FinishReason,
    Message,
    Origin,
    ToolCall,
    TurnRequest,
    VersionSpan,
    float32s,
    token_ids,
)
from gateway.errors import BadRequest, MultimodalUnsupported, RendererError
from gateway.render.demo import MODEL_NAME
from gateway.render.discovery import AnswerFormat, answer_format
from gateway.render.formats import DEMO
from gateway.render.registry import load_tokenizer
from gateway.render.template import TemplateRenderer
from gateway.render.translator import Translator
from tests.core.sampled import HOW
from tests.render.hostile import SOUND, chatml
from tests.tokenizers.folders import folder_of

TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look.",
            "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
        },
    },
)
USER, RESULT = Message("user", "More?"), Message("tool", "out", tool_call_id="call_0")
CALL = (ToolCall("call_0", "look", '{"at": "x"}'),)
QWEN_CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "x"}}\n</tool_call><|im_end|>'
DEEPSEEK_CALL = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n"
    '{"at": "x"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>'
)


@pytest.fixture(scope="module")
def deepseek():
    return load_tokenizer(str(folder_of("deepseek_v3")), "deepseek-v3")


@pytest.fixture(scope="module")
def demo():
    return load_tokenizer(MODEL_NAME, MODEL_NAME)


@pytest.fixture(scope="module")
def made(qwen):
    """The backend on Qwen3's tokenizer: to look through a large vocabulary takes time."""
    answers = answer_format(qwen, None, {})

    @cache
    def renderer(retention=None, *, thinking=True):
        given = {} if thinking else {"enable_thinking": False}
        return Translator(TemplateRenderer(qwen, given, answers=answers, retention=retention), qwen).learn()

    return renderer


def next_prompt(translator, text, answer, new, *, tools=TOOLS):
    """Sample `text`, and build the prompt that goes on with a message; whether it is bridged, and what it adds."""
    ledger, asked, tokenizer = Ledger(), Message("user", "Hi"), translator.tokenizer
    pending = ledger.prepare(TurnRequest((asked,), tools=tools))
    ids = tokenizer.encode(text, add_special_tokens=False)
    completion = Completion(
        token_ids(ids), float32s([-1.0] * len(ids)), FinishReason.STOP, (VersionSpan("unknown", 0, len(ids)),)
    )
    turn = pending.seal("t", build_prompt(translator, pending), completion, Answer(answer), Origin("e", 0), **HOW)
    pending.commit(turn)
    prompt = build_prompt(translator, ledger.prepare(TurnRequest((asked, answer, new), tools=tools)))
    known = turn.prompt.length + len(ids)
    return None if prompt.base is None else tokenizer.decode(prompt.ids[known:])


def test_renders_are_what_the_template_writes(qwen, made):
    """Id for id, with and without the opening of an answer."""
    messages = [{"role": "user", "content": "Hi <|im_end|> é"}, {"role": "assistant", "content": "ok"}]
    for opened in (True, False):
        written = qwen.apply_chat_template(messages, tools=[*TOOLS], add_generation_prompt=opened, return_dict=False)
        assert made().renderer.render_ids(messages, tools=[*TOOLS], add_generation_prompt=opened) == written


def test_results_of_tools_are_bridged_on_qwen(made):
    """With thoughts, too, since its template keeps those of the running turn."""
    thinking = Message("assistant", reasoning="hm", tool_calls=CALL)
    delta = "\n<|im_start|>user\n<tool_response>\nout\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    translator = made()

    assert next_prompt(translator, QWEN_CALL, Message("assistant", tool_calls=CALL), RESULT) == delta
    assert next_prompt(translator, f"<think>\nhm\n</think>\n\n{QWEN_CALL}", thinking, RESULT) == delta


@pytest.mark.parametrize("retention", [None, "all"])
def test_a_user_message_behind_a_thought_is_bridged_only_where_all_thoughts_are_kept(made, retention):
    """Qwen3's template strips it there; without one there is nothing to strip."""
    translator = made(retention)
    thought = next_prompt(
        translator, "<think>\nhm\n</think>\n\nok<|im_end|>", Message("assistant", "ok", reasoning="hm"), USER
    )
    plain = next_prompt(translator, "ok<|im_end|>", Message("assistant", "ok"), USER)

    assert plain == "\n<|im_start|>user\nMore?<|im_end|>\n<|im_start|>assistant\n"
    assert thought == (plain if retention else None)


@pytest.mark.parametrize("retention", [None, "all"])
@pytest.mark.parametrize("new", [USER, RESULT])
def test_a_sampled_thought_that_says_nothing_is_one_that_the_template_strips(made, retention, new):
    """No message tells of it, and so the template would not write it again."""
    text = "<think>\n\n</think>\n\nok<|im_end|>"

    assert (next_prompt(made(retention), text, Message("assistant", "ok"), new) is None) is (retention is None)


@pytest.mark.parametrize("retention", [None, "all"])
def test_an_empty_thought_that_the_template_opens_with_counts_as_a_thought(made, retention):
    """With thinking off, Qwen3's template puts one into the model's mouth and strips it behind the answer."""
    translator = made(retention, thinking=False)
    bridged = next_prompt(translator, "ok<|im_end|>", Message("assistant", "ok"), USER)
    delta = "\n<|im_start|>user\nMore?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"

    assert bridged == (delta if retention else None)


def test_both_kinds_of_turns_are_bridged_on_deepseek(deepseek):
    """Its template does not close an answer that calls for the first time, and the model does."""
    translator = Translator(TemplateRenderer(deepseek, {}, answers=answer_format(deepseek, None, {})), deepseek).learn()
    results = "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>out<｜tool▁output▁end｜><｜tool▁outputs▁end｜>"
    ok = "ok<｜end▁of▁sentence｜>"

    assert next_prompt(translator, DEEPSEEK_CALL, Message("assistant", tool_calls=CALL), RESULT) == results
    assert next_prompt(translator, ok, Message("assistant", "ok"), USER) == "<｜User｜>More?<｜Assistant｜>"


def test_answers_are_read_as_the_template_writes_them(made, qwen):
    """By the one reader, whose markers the stream is read by as well."""
    renderer = made().renderer
    parsed = renderer.parse_response(qwen.encode(f"<think>\nhm\n</think>\n\n{QWEN_CALL}", add_special_tokens=False))

    assert (parsed.content, parsed.reasoning_content) == ("", "hm")
    assert [(call.name, call.arguments) for call in parsed.tool_calls] == [("look", '{"at": "x"}')]
    assert renderer.markers is not None


@pytest.mark.parametrize(
    ("template", "stops"),
    [
        (SOUND, ["<|im_end|>"]),
        (chatml(close="<|endoftext|>"), ["<|endoftext|>", "<|im_end|>"]),
        (chatml(close=""), ["<|im_start|>", "<|im_end|>"]),
        ("{% for message in messages %}{{ message.content }}{% endfor %}", ["<|im_end|>"]),
        ("{{ raise_exception('no') }}", ["<|im_end|>"]),
    ],
)
def test_what_ends_an_answer_is_found_behind_one(demo, template, stops):
    """A close, or what opens the next message; and the tokenizer's own end of text."""
    tokenizer, answers = copy(demo), AnswerFormat("demo", "given", demo, DEMO)
    tokenizer.chat_template = template

    found = TemplateRenderer(tokenizer, {}, answers=answers).get_stop_token_ids()
    assert [tokenizer.decode([one]) for one in found] == stops


def test_a_template_without_any_end_is_refused(demo):
    """Nobody could tell where an answer stops."""
    tokenizer = deepcopy(demo)  # copies share their special tokens
    tokenizer.chat_template, tokenizer.eos_token = "{{ messages[0].content }}", None

    with pytest.raises(RendererError, match="eos"):
        TemplateRenderer(tokenizer, {}, answers=AnswerFormat("demo", "given", demo, DEMO))


IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}


def test_what_is_no_text_is_refused_and_never_bridged(made, qwen):
    """Text in parts is text."""
    renderer = made().renderer
    asked, ok = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "ok"}
    parts = {"role": "user", "content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]}
    prompt = renderer.render_ids([asked], add_generation_prompt=True)
    said = qwen.encode("ok<|im_end|>", add_special_tokens=False)

    def bridged(new, history):
        return renderer.bridge_to_next_turn(prompt, said, [new], history=history)

    assert renderer.render_ids([parts], add_generation_prompt=True) == prompt
    assert bridged(parts, [parts, ok]) == bridged(asked, [asked, ok]) is not None
    assert bridged(IMAGE, [asked, ok]) is bridged(asked, [IMAGE, ok]) is None
    with pytest.raises(MultimodalUnsupported):
        renderer.render_ids([IMAGE])


def test_what_the_template_refuses_is_the_callers_fault_in_its_words(demo):
    """Cut, where they are long."""
    tokenizer = copy(demo)
    for words, shown in (("roles must alternate", "roles must alternate"), ("x" * 5000, "x" * 200)):
        tokenizer.chat_template = f"{{{{ raise_exception('{words}') }}}}"
        renderer = TemplateRenderer(tokenizer, {}, answers=AnswerFormat("demo", "given", demo, DEMO))
        with pytest.raises(BadRequest, match=f"refuses them: {shown}$") as caught:
            renderer.render_ids([{"role": "user", "content": "Hi"}])
        assert caught.value.param == "messages"
