"""`gateway.render.resolve`: what it returns is a renderer, for who knows the four methods alone."""

import logging
import subprocess
import sys
from copy import copy
from typing import Any

import pytest

from gateway.core.types import Message
from gateway.errors import BadRequest, ConfigError
from gateway.render import Renderer, resolve
from gateway.render.options import NO_OPTIONS
from gateway.render.prime import PrimeRenderer
from gateway.render.resolution import resolution_of
from gateway.render.translator import Translator
from tests.render.doubles import PlainRenderer, PlainTokenizer

QWEN = "Qwen/Qwen3-8B"
OTHER = "mine/tuned"


def test_the_renderer_has_the_very_tokenizer_whose_name_stays(qwen, caplog):
    """The model's name is said apart, so the weights may be anywhere; the choice is logged once, with its reason."""
    local = copy(qwen)
    local.name_or_path = "/models/step-100"
    with caplog.at_level(logging.INFO, "gateway.render"):
        renderer = resolve(QWEN, local, thinking_retention="all")

    assert isinstance(renderer, PrimeRenderer)
    own: Any = renderer.wrapped
    assert own._tokenizer is local
    assert local.name_or_path == "/models/step-100"
    (told,) = [record.getMessage() for record in caplog.records if record.name.startswith("gateway.")]
    assert told.startswith(f"a renderer was chosen for {QWEN}: prime (qwen3): ")


def test_what_is_resolved_keeps_the_contract_of_four_methods(qwen):
    """For who uses them alone: a prompt, an answer, and the next prompt that extends both."""
    renderer = resolve(QWEN, qwen, renderer_config={"thinking_retention": "all"})
    assert isinstance(renderer, Renderer)
    prompt = [*renderer.render_ids([{"role": "user", "content": "?"}], add_generation_prompt=True)]
    answer = qwen.encode("<think>\nhm\n</think>\n\nyes<|im_end|>", add_special_tokens=False)
    bridged: Any = renderer.bridge_to_next_turn(prompt, answer, [{"role": "user", "content": "!"}])

    assert renderer.parse_response(answer).content == "yes"
    assert answer[-1] in renderer.get_stop_token_ids()
    assert [*bridged.token_ids][: len(prompt + answer)] == prompt + answer


def test_a_renderer_that_does_not_fit_the_tokenizer_is_a_fault_of_the_configuration(qwen):
    """Also for who calls `resolve`; template arguments are the caller's."""
    with pytest.raises(ConfigError, match=r"--renderer prime \(kimi-k2\) does not work for 'mine/tuned'"):
        resolve(OTHER, qwen, renderer_name="kimi-k2")
    with pytest.raises(BadRequest, match="nonsense"):
        resolve(QWEN, qwen, template_kwargs={"nonsense": 1})


def test_a_renderer_object_needs_no_tokenizer_of_ours():
    """It is returned as it is."""
    given = PlainRenderer()
    assert resolve("any", PlainTokenizer(), renderer=given) is given
    assert resolution_of("any", PlainTokenizer(), given, retention="all", options=NO_OPTIONS).make({}) is given


def test_to_import_the_room_loads_no_package_of_renderers_or_tokenizers():
    """They take seconds, and each of them may be missing."""
    heavy = ("transformers", "tokenizers", "torch", "renderers", "openai", "tinker", "tinker_cookbook", "training")
    program = f"import sys, gateway.render; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("policy", ["template", None])
def test_the_templates_own_policy_may_be_said_or_left_out(qwen, policy):
    """Here it strips at user messages."""
    resolved: Any = resolve(QWEN, qwen, thinking_retention=policy)
    assert resolved.effective_thinking_retention == "tool_cycle"


def test_a_renderer_that_cannot_read_calls_says_so(qwen):
    """The package's fallback, as its own client asks it; the gateway then refuses tools."""
    made: Any = resolve(OTHER, qwen, renderer_name="default")
    able: Any = resolve(OTHER, qwen, renderer_name="default", renderer_config={"tool_parser": "qwen3"})

    assert (made.supports_tools, able.supports_tools) == (False, True)
    with pytest.raises(BadRequest, match="tool_parser") as refused:
        Translator(made, qwen).render([Message("user", "?")], ({"type": "function"},))
    assert refused.value.param == "tools"
