"""Histories as the cookbook's renderers write them, beside what its own functions make of them."""

from functools import cache
from typing import Any

import pytest
from tinker_cookbook.renderers import get_renderer

from gateway.errors import BadRequest, ConfigError, MultimodalUnsupported, RendererError
from gateway.render.protocol import Renderer
from gateway.render.recollection import Recollection
from gateway.render.tinker import TinkerRenderer
from tests.tinker.test_parity import CASES, HI, SYSTEM, TOOLS, answer, result, user
from tests.tinker.tokenizers import tokenizer

pytestmark = pytest.mark.xdist_group("tokenizers")  # each loaded once
QWEN, LLAMA, DEEPSEEK, OSS = (
    ("qwen3", "Qwen/Qwen3-8B"),
    ("llama3_1", "meta-llama/Llama-3.1-8B-Instruct"),
    ("deepseek_v3", "deepseek-ai/DeepSeek-V3.1"),
    ("gptoss", "openai/gpt-oss-20b"),
)


@cache
def made(name: str, which: tuple[str, str]) -> TinkerRenderer:
    """One of the cookbook's, on a tokenizer: some take a second to make."""
    return TinkerRenderer(name, tokenizer(*which), model=which[1], recollection=Recollection())


def text(renderer: TinkerRenderer, *messages: dict[str, Any], tools: Any = None, opened: bool = True) -> str:
    ids = renderer.render_ids(list(messages), tools=tools, add_generation_prompt=opened)
    return renderer._writer.decode(ids)


def test_it_fulfils_the_contract():
    """And says which of the cookbook's it is."""
    renderer = made("qwen3", QWEN)
    assert isinstance(renderer, Renderer)
    assert type(renderer.wrapped).__name__ == "Qwen3Renderer"
    assert renderer.get_stop_token_ids() == tokenizer(*QWEN).encode("<|im_end|>", add_special_tokens=False)


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("thought, call", "results")])
def test_qwen3_is_written_as_its_template_writes_it(case):
    """Save a thought in front of a result, and several results: see the parity with prime, which writes these so, too."""
    messages, tools = CASES[case]
    ids = made("qwen3", QWEN).render_ids(messages, tools=tools, add_generation_prompt=True)
    template = tokenizer(*QWEN).apply_chat_template
    assert ids == template(messages, tools=tools, add_generation_prompt=True, return_dict=False)


def test_arguments_of_a_call_that_are_no_json_are_the_callers_fault():
    """An agent may bring a history that was sampled elsewhere."""
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "not json"}}
    with pytest.raises(BadRequest, match="no JSON"):
        text(made("qwen3", QWEN), HI, {"role": "assistant", "content": "", "tool_calls": [call]}, result("c", "7"))


def test_a_message_that_begins_with_a_newline_has_other_ids_than_the_template_gives_it():
    """The same text: the cookbook encodes what a message says apart from what stands in front of it."""
    messages, template = [user("\n")], tokenizer(*QWEN).apply_chat_template
    ids = made("qwen3", QWEN).render_ids(messages, add_generation_prompt=True)
    others = template(messages, add_generation_prompt=True, return_dict=False)
    assert ids != others
    assert tokenizer(*QWEN).decode(ids) == tokenizer(*QWEN).decode(others)


@pytest.mark.parametrize(("name", "which"), [("qwen3", QWEN), ("deepseekv3", DEEPSEEK), ("llama3", LLAMA)])
def test_a_prompt_is_what_the_cookbook_itself_makes_of_it(name, which):
    """Text is text, whatever stands in it."""
    messages = [SYSTEM, user("漢 <b>"), answer("ok"), user("")]
    own = get_renderer(name, tokenizer(*which)).build_generation_prompt(messages).to_ints()
    assert made(name, which).render_ids(messages, add_generation_prompt=True) == own


@pytest.mark.parametrize(("name", "which"), [("qwen3", QWEN), ("deepseekv3", DEEPSEEK), ("llama3", LLAMA)])
def test_a_history_without_an_opening_goes_on_from_the_prompt_of_its_answer(name, which):
    """And ends with the answer's end, so that the answer can be cut out of it."""
    renderer, before = made(name, which), [SYSTEM, HI]
    whole = renderer.render_ids([*before, answer("ok")])
    prompt = renderer.render_ids(before, add_generation_prompt=True)
    said = whole[len(prompt) :] if name != "qwen3" else whole[whole.index(tokenizer(*which).encode("ok")[0]) :]
    assert whole[: len(prompt)] == prompt
    assert renderer._writer.decode(said[:-1]) == "ok"
    assert said[-1] in renderer.get_stop_token_ids()


def test_a_history_need_not_end_in_an_answer():
    """Nor have one."""
    assert text(made("llama3", LLAMA), HI, opened=False).endswith("hi<|eot_id|>")


def test_tools_are_declared_with_the_system_message_as_the_cookbook_does():
    """What comes before the tools is what the system says."""
    declared = text(made("deepseekv3", DEEPSEEK), SYSTEM, HI, tools=TOOLS)
    assert declared.startswith("<｜begin▁of▁sentence｜>Be brief.\n\n## Tools\n")
    assert "### look\nDescription: It looks." in declared


def test_a_tool_need_not_describe_itself():
    """Renderers that write a description then write an empty one, and the others none."""
    bare = [{"type": "function", "function": {"name": "look"}}]
    assert "### look\nDescription: \n" in text(made("deepseekv3", DEEPSEEK), HI, tools=bare)
    assert '{"type": "function", "function": {"name": "look"}}' in text(made("qwen3", QWEN), HI, tools=bare)


def test_a_renderer_without_tools_refuses_them():
    """To leave them out would be to ask the model for something else."""
    with pytest.raises(BadRequest, match="knows none") as raised:
        made("llama3", LLAMA).render_ids([HI], tools=TOOLS)
    assert raised.value.param == "tools"


def test_what_the_cookbook_refuses_is_the_callers_to_mend():
    """In its own words."""
    with pytest.raises(BadRequest, match="only supports system message at start"):
        made("deepseekv3", DEEPSEEK).render_ids([HI, answer("ok"), SYSTEM, HI])


def test_a_result_is_named_after_its_call():
    """OpenAI's results have no name, and Harmony writes one."""
    called = [HI, answer("", "a", "b"), result("b", "r"), result("a", "s")]
    assert "<|start|>functions.look to=assistant" in text(made("gpt_oss_no_sysprompt", OSS), *called, tools=TOOLS)


def test_parts_of_text_are_joined_and_an_image_is_refused():
    """It would be dropped without a word."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert text(made("llama3", LLAMA), {"role": "user", "content": parts}).count("ab<|eot_id|>") == 1
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    with pytest.raises(MultimodalUnsupported, match="takes text parts only"):
        made("llama3", LLAMA).render_ids([{"role": "user", "content": [*parts, image]}])


def test_thoughts_are_taken_as_a_field_and_as_parts():
    """Both are what the model thought."""
    renderer = made("qwen3", QWEN)
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "ok"}]
    one, other = answer("ok", thought="hm"), {"role": "assistant", "content": parts}
    assert text(renderer, HI, one, opened=False) == text(renderer, HI, other, opened=False)
    assert "<think>\nhm\n</think>\n\nok" in text(renderer, HI, one, opened=False)


@pytest.mark.parametrize(("name", "which"), [("llama3", LLAMA), ("deepseekv3", DEEPSEEK), ("role_colon", QWEN)])
def test_a_thought_stops_no_renderer(name, which):
    """A renderer that refuses thoughts, as Llama's does, is not given those that a client sends back."""
    assert "ok" in text(made(name, which), HI, answer("ok", thought="hm"), HI)


def test_arguments_may_be_an_object_text_or_nothing():
    """The cookbook wants JSON text."""
    renderer = made("qwen3", QWEN)

    def called(arguments: object) -> str:
        call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": arguments}}
        return text(renderer, HI, {"role": "assistant", "content": None, "tool_calls": [call]}, opened=False)

    assert called({"q": 1}) == called('{"q": 1}')
    assert '"arguments": {}' in called("")


def test_no_new_results_are_bridged_where_a_content_is_no_text():
    """An image among new messages is none of what could be proven."""
    renderer = made("llama3", LLAMA)
    prompt = renderer.render_ids([HI], add_generation_prompt=True)
    said = [*tokenizer(*LLAMA).encode("ok", add_special_tokens=False), *renderer.get_stop_token_ids()]
    new: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
    assert renderer.bridge_to_next_turn(prompt, said, new) is None
    assert renderer.bridge_to_next_turn(prompt, said, [user("?"), answer("so")]) is None
    assert renderer.bridge_to_next_turn(prompt, said[:-1], [user("?")]) is None
    assert renderer.bridge_to_next_turn(prompt, said, [user("?")]) is not None


def test_stops_of_several_tokens_are_texts_and_those_of_one_are_ids():
    """A model that ends its turns in letters may also end all text."""
    renderer = made("role_colon", QWEN)
    assert renderer.stop_strings == ("\n\nUser:",)
    assert renderer.get_stop_token_ids() == [tokenizer(*QWEN).eos_token_id]
    assert made("gpt_oss_no_sysprompt", OSS).stop_strings == ()


def test_a_name_that_the_cookbook_does_not_know_is_an_ill_setting():
    """With the cookbook's own words."""
    with pytest.raises(ConfigError, match="--renderer-name qwen99: Unknown renderer"):
        made("qwen99", QWEN)


def test_a_renderer_that_cannot_be_made_for_a_tokenizer_says_so():
    """A stop that is no token of it, say."""
    with pytest.raises(RendererError, match="llama3 cannot be made"):
        made("llama3", QWEN)
