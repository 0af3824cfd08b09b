"""What is said of a renderer beside which one it is: heeded, or refused."""

import pytest

from gateway.errors import ConfigError
from gateway.render.options import config_of


@pytest.mark.parametrize(
    ("renderer", "options", "says"),
    [
        ("auto", {"tool_format": "hermes"}, "--tool-format: template and remote take it"),
        ("auto", {"render_url": "http://x"}, "--render-url: remote takes it"),
        ("template", {"name": "qwen3"}, "--renderer-name: prime and tinker take it"),
        ("template", {"config": {}}, "--renderer-config: prime takes it"),
        ("tinker", {"config": {}}, "--renderer-config: prime takes it"),
        ("template", {"image_processor": object()}, "--image-processor: tinker takes it"),
        ("tests.render.doubles:plain_factory", {"name": "qwen3"}, "--renderer-name"),
    ],
)
def test_an_option_that_the_renderer_does_not_heed_is_refused(resolution, tinker_double, renderer, options, says):
    """It would look as if it was in force."""
    tinker_double()
    with pytest.raises(ConfigError, match=says):
        resolution(renderer=renderer, **options)


@pytest.mark.parametrize("renderer", ["template", "tinker"])
def test_a_retention_that_a_backend_cannot_keep_is_refused(resolution, tinker_double, renderer):
    """Their bridges keep all reasoning, or what the template keeps."""
    tinker_double()
    with pytest.raises(ConfigError, match="--thinking-retention tool_cycle"):
        resolution(renderer=renderer, retention="tool_cycle")


@pytest.mark.parametrize(("text", "says"), [("{", "it is no JSON"), ("[1]", "must be a JSON object")])
def test_a_configuration_that_is_no_object_is_refused(text, says):
    """Before anything is looked for."""
    with pytest.raises(ConfigError, match=f"--renderer-config.*{says}"):
        config_of(text)


@pytest.mark.parametrize(
    ("config", "says"), [({"name": 5}, "name: 5"), ({"name": "qwen3.5"}, "name: 'qwen3.5'.*--renderer-name")]
)
def test_a_name_in_the_configuration_that_contradicts_is_refused(resolution, config, says):
    """There are two places to say it, and one renderer."""
    with pytest.raises(ConfigError, match=f"--renderer-config.*{says}"):
        resolution(config=config, name="qwen3")


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"retention": "nonsense"}, "--thinking-retention nonsense: must be one of all, tool_cycle, template"),
        ({"audit_interval": 0}, "--bridge-audit-interval 0: must be 1"),
        ({"name": ""}, "--renderer-name: it is empty"),
        ({"renderer": "demo"}, "--renderer demo: it is for --model rollout-gateway/demo"),
    ],
)
def test_what_cannot_be_meant_is_refused(resolution, said, says):
    """Naming the setting."""
    with pytest.raises(ConfigError, match=says):
        resolution(**said)
