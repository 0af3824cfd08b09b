"""What a row says of the renderer that made its prompts."""

from hashlib import sha256
from typing import Any

from gateway import __version__
from gateway.render.mark import mark_of
from gateway.render.registry import renderers_for
from tests.render.doubles import PlainRenderer, PlainTokenizer


class Templated(PlainTokenizer):
    """A tokenizer with a chat template, or several."""

    def __init__(self, template: object) -> None:
        self.chat_template = template


def test_a_renderer_of_ones_own_is_named_by_its_class():
    """Its version is not known where no package of its name is installed."""
    mark = mark_of(PlainRenderer(), PlainTokenizer())
    assert (mark.name, mark.version, mark.template) == ("tests.render.doubles.PlainRenderer", "unknown", None)


def test_a_template_is_told_by_its_digest():
    """One text is hashed as it is; several by name, in whatever order they stand."""
    assert mark_of(PlainRenderer(), Templated("{{ x }}")).template == sha256(b"{{ x }}").hexdigest()
    one, other = ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    assert mark_of(PlainRenderer(), Templated(one)) == mark_of(PlainRenderer(), Templated(other))
    assert mark_of(PlainRenderer(), Templated(one)) != mark_of(PlainRenderer(), Templated({"a": "1"}))


def test_a_renderer_of_a_package_has_its_version(qwen):
    """Ours has the gateway's."""
    renderers, _ = renderers_for("prime", qwen, None, retention="all", bridgeless_ok=False)
    mark = renderers.get({}).mark
    assert mark.name.startswith("renderers.")
    assert mark.version[0].isdigit()
    assert mark.template == sha256(qwen.chat_template.encode()).hexdigest()
    ours: Any = renderers  # any class of ours will do
    assert mark_of(ours, qwen).version == __version__
