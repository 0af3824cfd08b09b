"""PrimeIntellect's package as it was up to 0.1.7: made of a name, its results plain lists, its bridges without a policy.

Where that release itself is on the path these tests are run on it; else on a double of its interface around today's.
"""

import sys
from types import ModuleType

import pytest

from gateway.errors import BadRequest, ConfigError, MultimodalUnsupported, RendererError
from gateway.render import prime
from gateway.render.formats import FORMATS
from gateway.render.options import Options
from gateway.render.registry import renderers_for

import renderers  # isort: skip  # whichever it is

USER, TOOL = {"role": "user", "content": "more"}, {"role": "tool", "content": "out", "tool_call_id": "c"}


class RendererBefore:
    """A double: today's renderer with the four methods as they were."""

    def __init__(self, today):
        self._today = today

    def render_ids(self, messages, *, tools=None, add_generation_prompt=False):
        return self._today.render_ids(messages, tools=tools, add_generation_prompt=add_generation_prompt)

    def parse_response(self, token_ids):
        return self._today.parse_response(token_ids)

    def get_stop_token_ids(self):
        return self._today.get_stop_token_ids()

    def bridge_to_next_turn(self, previous_prompt_ids, previous_completion_ids, new_messages, *, tools=None):
        bridged = self._today.bridge_to_next_turn(
            previous_prompt_ids, previous_completion_ids, new_messages, tools=tools
        )
        return None if bridged is None else list(bridged.token_ids)


def package_before(today):
    """A double of the package, with what of its surface is used."""
    package, base = ModuleType("renderers"), ModuleType("renderers.base")

    def create_renderer(
        tokenizer,
        renderer="auto",
        *,
        tool_parser=None,
        reasoning_parser=None,
        preserve_all_thinking=False,
        preserve_thinking_between_tool_calls=False,
    ):
        policy = {} if renderer == "default" else {"thinking_retention": "all"}
        config = type(today.config_from_name(renderer))(**policy)
        return RendererBefore(today.create_renderer(tokenizer, config))

    base.MODEL_RENDERER_MAP = {"Qwen/Qwen3-8B": "qwen3"}  # type: ignore[attr-defined]  # it is a double
    base.RENDERER_REGISTRY = dict.fromkeys(["default", "minimax-m2", "qwen3"])  # type: ignore[attr-defined]  # likewise
    base._populate_registry = lambda: None  # type: ignore[attr-defined]  # likewise
    package.base, package.create_renderer = base, create_renderer  # type: ignore[attr-defined]  # likewise
    return package


@pytest.fixture(autouse=True)
def before(monkeypatch):
    """The older package, or its double."""
    if hasattr(renderers, "config_from_name"):
        package = package_before(renderers)
        monkeypatch.setitem(sys.modules, "renderers", package)
        monkeypatch.setitem(sys.modules, "renderers.base", package.base)
    assert not prime.installed().is_typed


def made(qwen, name="qwen3", retention=None, template_kwargs=None, **config):
    """One of its renderers."""
    return prime.prime_renderer(
        name, qwen, model="Qwen/Qwen3-8B", config=config, retention=retention, template_kwargs=template_kwargs or {}
    )


def test_it_serves_as_todays_does(qwen):
    """Chosen by the model's name; what is sampled is kept to the last id."""
    translator = renderers_for("auto", qwen, None, retention="all", bridgeless_ok=False)[0].get({})

    assert (translator.thinking_retention, translator.form) == ("all", FORMATS["qwen3"])


@pytest.mark.parametrize(("retention", "at_users"), [("all", True), ("tool_cycle", False), (None, False)])
def test_behind_a_users_message_it_bridges_where_all_reasoning_is_kept(qwen, retention, at_users):
    """Its own bridges keep it always, and so are not used where the template would strip it."""
    renderer = made(qwen, retention=retention)
    prompt = [*renderer.render_ids([USER], add_generation_prompt=True)]
    said = qwen.encode("<think>\nhm\n</think>\n\nok<|im_end|>", add_special_tokens=False)
    of_tool, of_user = (renderer.bridge_to_next_turn(prompt, said, [message]) for message in (TOOL, USER))

    assert renderer.effective_thinking_retention == retention
    assert [*getattr(of_tool, "token_ids", of_tool)][: len(prompt + said)] == prompt + said
    assert (of_user is not None) is at_users
    assert renderer.parse_response(said).content == "ok"


def test_a_full_render_is_the_templates_whatever_is_kept(qwen):
    """As with today's."""
    history = [USER, {"role": "assistant", "content": "ok", "reasoning_content": "hm"}, USER]
    by_template = qwen.apply_chat_template(history, add_generation_prompt=True, return_dict=False)

    for retention in ("all", "tool_cycle", None):
        assert by_template == [*made(qwen, retention=retention).render_ids(history, add_generation_prompt=True)]


def test_what_it_would_drop_is_refused(qwen):
    """It leaves out text, too, that comes in parts."""
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}
    parts = {"role": "user", "content": [{"type": "text", "text": "mo"}, {"type": "text", "text": "re"}]}
    renderer = made(qwen, retention="all")
    prompt = [*renderer.render_ids([USER], add_generation_prompt=True)]
    said = qwen.encode("ok<|im_end|>", add_special_tokens=False)

    assert renderer.bridge_to_next_turn(prompt, said, [image]) is None
    with pytest.raises(MultimodalUnsupported):
        renderer.render_ids([image])
    one, other = (renderer.bridge_to_next_turn(prompt, said, [message]) for message in (parts, USER))
    assert getattr(one, "token_ids", one) == getattr(other, "token_ids", other)


def test_it_takes_no_template_arguments(qwen):
    """They are the caller's."""
    with pytest.raises(BadRequest, match=r"takes none; 0\.1\.8 and later do"):
        made(qwen, template_kwargs={"enable_thinking": False})


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"preserve_all_thinking": True}, "preserve_all_thinking: .*say --thinking-retention all"),
        ({"preserve_thinking_between_tool_calls": True}, "preserve_.*say --thinking-retention tool_cycle"),
        ({"enable_thinking": False}, r"enable_thinking: .*0\.1\.8 and later may"),
        ({"thinking_retention": "some"}, "thinking_retention: must be all or tool_cycle"),
    ],
)
def test_a_field_that_it_does_not_take_is_named(qwen, config, says):
    """With what says the same, where something does."""
    with pytest.raises(ConfigError, match=f"--renderer-config {says}"):
        made(qwen, **config)


def test_its_fallback_takes_parsers_and_the_configuration_a_retention(qwen):
    """What could be configured then."""
    assert made(qwen, "default", "all", tool_parser="qwen3").effective_thinking_retention is None
    assert made(qwen, retention="all", thinking_retention="tool_cycle").effective_thinking_retention == "tool_cycle"


def test_a_renderer_that_does_not_fit_the_tokenizer_cannot_be_made(qwen):
    """Said with the package's own words."""
    with pytest.raises(RendererError, match="minimax-m2 cannot be made: "):
        made(qwen, "minimax-m2")
    with pytest.raises(ConfigError, match="--renderer-name"):
        renderers_for("prime", qwen, None, retention="all", bridgeless_ok=False, options=Options(name="qwen33"))
