"""What PrimeIntellect's real Qwen3 renderer does that the gateway must catch."""

import pytest

from gateway.core.ledger import Ledger
from gateway.core.prompt import build_prompt
from gateway.core.types import (
    Answer,
    Completion,
    FinishReason,
    Message,
    Origin,
    TurnRequest,
    VersionSpan,
    float32s,
    token_ids,
)
from gateway.errors import ConfigError, MultimodalUnsupported
from gateway.render.draft import guarded
from gateway.render.formats import FORMATS
from gateway.render.options import Options
from gateway.render.prime import prime_renderer
from gateway.render.registry import renderers_for
from tests.core.sampled import HOW
from tests.render.doubles import read


@pytest.fixture(scope="module")
def translator(qwen):
    return renderers_for("auto", qwen, None, retention="all", bridgeless_ok=False)[0].get({})


def second_turn(translator, qwen, text, *, finish=FinishReason.STOP):
    """Sample `text` as the first turn; build the prompt of the next one."""
    ledger, ask = Ledger(), Message("user", "q")
    pending = ledger.prepare(TurnRequest((ask,)))
    ids = qwen.encode(text, add_special_tokens=False)
    logprobs, spans = float32s([-1.0] * len(ids)), (VersionSpan("unknown", 0, len(ids)),)
    prompt = build_prompt(translator, pending)
    answer = read(translator, ids, prompt.ids, (), lambda: "call_0").message
    completion = Completion(token_ids(ids), logprobs, finish, spans)
    turn = pending.seal("t", prompt, completion, Answer(answer), Origin("e", 0), **HOW)
    pending.commit(turn)
    return turn, build_prompt(translator, ledger.prepare(TurnRequest((ask, answer, Message("user", "more")))))


@pytest.mark.parametrize("text", ["ok<|im_end|>\nfoo", "ok<|im_end|>more text", "a<|im_end|>b<|im_end|>c"])
def test_a_bridge_that_drops_what_was_sampled_after_an_early_close_is_caught(translator, qwen, text):
    """The package cuts at the last turn close; the turn is rendered in full instead, and says why."""
    _, prompt = second_turn(translator, qwen, text)

    assert (prompt.base, prompt.reason) == (None, "bridge_unproven")


@pytest.mark.parametrize(
    ("text", "finish"),
    [
        ("ok<|im_end|>", FinishReason.STOP),
        ("<think>\nhm\n</think>\n\nok<|im_end|>", FinishReason.STOP),
        ("cut in the mid", FinishReason.LENGTH),
        ("<think>\ncut while thinking", FinishReason.LENGTH),
        ("ok<|endoftext|>", FinishReason.STOP),
    ],
)
def test_a_proven_bridge_keeps_every_sampled_id(translator, qwen, text, finish):
    """Also behind a truncated answer, whose close is synthesised and is not trained."""
    turn, prompt = second_turn(translator, qwen, text, finish=finish)

    known = turn.prompt_ids() + turn.completion.ids
    assert prompt.base is turn
    assert known.tolist() == prompt.ids[: len(known)]


def test_a_stop_inside_open_thinking_is_not_bridged(translator, qwen):
    """The package declines; the history is rendered."""
    _, prompt = second_turn(translator, qwen, "<think>\nhm<|im_end|>")

    assert (prompt.base, prompt.reason) == (None, "bridge_declined")


IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}


def made(qwen, name="qwen3", retention=None, template_kwargs=None, **config):
    """One of the package's renderers."""
    return prime_renderer(
        name, qwen, model="Qwen/Qwen3-8B", config=config, retention=retention, template_kwargs=template_kwargs or {}
    )


def test_what_the_package_would_drop_is_refused(qwen):
    """Its own renderer for Qwen3 leaves an image out, and bridges all the same; text in parts is text."""
    renderer, text = made(qwen, retention="all"), {"role": "user", "content": [{"type": "text", "text": "?"}]}
    prompt = [*renderer.render_ids([text], add_generation_prompt=True)]
    said = qwen.encode("ok<|im_end|>", add_special_tokens=False)

    assert renderer.wrapped.bridge_to_next_turn(prompt, said, [IMAGE]) is not None
    assert renderer.bridge_to_next_turn(prompt, said, [IMAGE]) is None
    assert renderer.bridge_to_next_turn(prompt, said, [text]) is not None
    with pytest.raises(MultimodalUnsupported):
        renderer.render_ids([IMAGE])
    with pytest.raises(MultimodalUnsupported):
        guarded(renderer.render_ids, [IMAGE])
    assert prompt == renderer.render_ids([{"role": "user", "content": "?"}], add_generation_prompt=True)


def test_the_configuration_comes_before_the_retention(qwen):
    """Each field as the package's own typed configuration has it."""
    renderer = made(qwen, retention="all", thinking_retention="tool_cycle", enable_thinking=False)

    assert renderer.effective_thinking_retention == "tool_cycle"
    assert renderer.wrapped.config.enable_thinking is False
    assert renderer.markers.form is FORMATS["qwen3"]


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"nonsense": 1}, "nonsense"),
        ({"enable_thinking": [1]}, "enable_thinking"),
        ({"thinking_retention": "some"}, "thinking_retention"),
    ],
)
def test_a_field_that_the_package_does_not_take_is_named(qwen, config, field):
    """At start, since it stands in the configuration."""
    with pytest.raises(ConfigError, match=f"--renderer-config {field}: "):
        made(qwen, **config)


def test_a_family_that_the_package_does_not_have_is_refused_with_those_it_has(qwen):
    """So that it can be said right."""
    with pytest.raises(ConfigError, match=r"--renderer-name qwen33.*deepseek-v3.*qwen3"):
        made(qwen, "qwen33")


def test_another_family_serves_a_model_that_was_made_from_it(named):
    """Its formats, too, by the family's name; the package's fallback has neither policy nor format."""
    tuned = named("/models/tuned")
    renderers, _ = renderers_for(
        "auto", tuned, None, retention="all", bridgeless_ok=False, options=Options(name="qwen3")
    )
    translator = renderers.get({"enable_thinking": False})

    assert translator.form is FORMATS["qwen3"]
    assert translator.thinking_retention == "all"
    assert tuned.name_or_path == "/models/tuned"
    assert made(tuned, "default", "all").markers is None
