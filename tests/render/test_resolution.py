"""Which renderer serves a model and why: what comes first, what is missing, and what is broken."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import pytest

from gateway.errors import BadRequest, ConfigError, PackageAbsent, RendererError
from gateway.render.demo import FOLDER, MODEL_NAME, DemoRenderer
from gateway.render.registry import load_tokenizer
from tests.render.doubles import PlainRenderer

QWEN = "Qwen/Qwen3-8B"
OTHER = "mine/tuned"


@contextmanager
def _anew(package: str, **blocked: None) -> Iterator[None]:
    """A place where a package has not been imported yet, and some modules cannot be; then all is as before."""
    before = dict(sys.modules)
    for name in before:
        if name.partition(".")[0] == package:
            del sys.modules[name]
    sys.modules.update(blocked)  # type: ignore[arg-type]  # this is how an import is blocked
    try:
        yield
    finally:
        for name in set(sys.modules) - set(before):
            del sys.modules[name]
        sys.modules.update(before)


@pytest.fixture
def no_prime():
    """The package renderers is not installed."""
    with _anew("renderers", renderers=None):
        yield


@pytest.fixture
def bare(qwen):
    """A tokenizer without a chat template."""
    other = copy(qwen)
    other.chat_template = None
    return other


def test_a_model_that_both_packages_know_is_primes(resolution, tinker_double):
    """By exactly its name; the reason says which version knew it."""
    tinker_double()
    chosen = resolution()

    assert (chosen.backend, chosen.name) == ("prime", "qwen3")
    assert QWEN in chosen.why
    assert str(chosen) == f"prime (qwen3): {chosen.why}"


@pytest.mark.parametrize("model", ["/models/Qwen3-8B", "qwen/qwen3-8b", "Qwen/Qwen3-8B-tuned"])
def test_a_name_that_is_nearly_one_is_not_primes(resolution, model):
    """Its template may be another; what was passed over is said."""
    chosen = resolution(model)

    assert chosen.backend == "template"
    assert "renderers 0." in chosen.why
    assert repr(model) in chosen.why


def test_what_prime_does_not_know_is_tinkers_where_that_does(resolution, tinker_double, qwen):
    """The renderer has its name from the list, and this tokenizer."""
    tinker_double()
    chosen = resolution(OTHER, retention="all", audit_interval=7, image_processor="p")
    name, tokenizer, options = chosen.make({}).seen

    assert (chosen.backend, chosen.name, name) == ("tinker", "double", "double")
    assert tokenizer is qwen
    assert options == {
        "model": OTHER,
        "retention": "all",
        "audit_interval": 7,
        "image_processor": "p",
        "recollection": None,
    }
    with pytest.raises(BadRequest, match="chat_template_kwargs"):
        chosen.make({"enable_thinking": True})


def test_without_prime_tinker_serves_and_without_both_the_template(resolution, tinker_double, no_prime):
    """That a package is not installed is no fault, and is said."""
    tinker_double()
    assert resolution().backend == "tinker"
    assert "the package renderers is not installed" in resolution().why

    tinker_double(fails=PackageAbsent("tinker-cookbook", "pip install it"))
    chosen = resolution()
    assert (chosen.backend, chosen.name) == ("template", QWEN)
    assert "the package renderers is not installed; tinker-cookbook is not installed" in chosen.why


def test_where_nothing_serves_the_remedies_are_told(resolution, tinker_double, bare):
    """With what was tried, in one line."""
    tinker_double(knows=())
    with pytest.raises(ConfigError, match=r"'mine/tuned'.*no chat template.*--model-name.*--renderer-name") as refused:
        resolution(OTHER, tokenizer=bare)
    assert "\n" not in str(refused.value)
    assert "module:factory" in str(refused.value)


@pytest.mark.parametrize("model", [MODEL_NAME, "/some/folder"])
def test_the_demos_tokenizer_has_the_demos_renderer(resolution, model):
    """By the model's name, or by what the folder says of itself; whatever packages there are."""
    chosen = resolution(model, tokenizer=load_tokenizer(str(FOLDER), model))

    assert chosen.backend == "demo"
    assert isinstance(chosen.make({}), DemoRenderer)


def test_a_renderer_that_is_given_comes_before_all_others(resolution):
    """An object, or one that a factory makes of the tokenizer; neither takes template arguments."""
    given = PlainRenderer()
    object_, made = resolution(renderer=given), resolution(renderer="tests.render.doubles:plain_factory")

    assert (object_.backend, object_.name, object_.make({})) == ("own", "PlainRenderer", given)
    assert (made.backend, made.name) == ("own", "tests.render.doubles:plain_factory")
    assert isinstance(made.make({}), PlainRenderer)
    assert made.make({}) is made.make({})
    for chosen in (object_, made):
        with pytest.raises(BadRequest, match="chat_template_kwargs"):
            chosen.make({"enable_thinking": True})


@pytest.mark.parametrize(
    ("renderer", "options", "backend"),
    [
        ("prime", {}, "prime"),
        ("tinker", {}, "tinker"),
        ("template", {}, "template"),
        ("remote", {"render_url": "http://127.0.0.1:1"}, "remote"),
        ("template", {"tool_format": "hermes"}, "template"),
        ("auto", {"name": "qwen3"}, "prime"),
        ("auto", {"config": {"name": "qwen3"}}, "prime"),
        ("auto", {"name": "double"}, "tinker"),
        ("tinker", {"name": "qwen3"}, "tinker"),
    ],
)
def test_a_backend_or_a_name_that_is_said_comes_before_what_the_model_is_called(
    resolution, tinker_double, renderer, options, backend
):
    """A name that both have is prime's, unless the backend is said."""
    tinker_double()
    chosen = resolution(renderer=renderer, **options)

    assert chosen.backend == backend
    if "name" in options:
        assert chosen.name == options["name"]
        assert f"--renderer-name {options['name']}" in chosen.why


@pytest.mark.parametrize(
    ("renderer", "model", "says"),
    [
        ("prime", OTHER, r"--renderer prime.*'mine/tuned'.*--model-name.*--renderer-name.*qwen3"),
        ("tinker", OTHER, r"--renderer tinker.*'mine/tuned'.*--renderer-name"),
        ("remote", OTHER, "--renderer remote.*--render-url"),
        ("nonsense", QWEN, "--renderer nonsense: must be auto, prime"),
    ],
)
def test_a_backend_that_cannot_serve_stops_the_start(resolution, tinker_double, renderer, model, says):
    """With what would help it."""
    tinker_double(knows=())
    with pytest.raises(ConfigError, match=says):
        resolution(model, renderer)


def test_a_template_that_is_not_there_stops_the_start(resolution, bare):
    """It was asked for by name."""
    with pytest.raises(ConfigError, match=r"--renderer template.*no chat template"):
        resolution(OTHER, "template", bare)


def test_a_package_that_is_asked_for_and_missing_stops_the_start(resolution, tinker_double, no_prime):
    """Naming it, and how to get it."""
    tinker_double(fails=PackageAbsent("tinker-cookbook", "pip install it"))
    with pytest.raises(ConfigError, match="the package renderers is not installed: pip install"):
        resolution(renderer="prime")
    with pytest.raises(ConfigError, match="tinker-cookbook is not installed: pip install it"):
        resolution(renderer="tinker")
    with pytest.raises(ConfigError, match=r"--renderer-name qwen3: the package renderers is not .*, and tinker-cookb"):
        resolution(name="qwen3")


def test_a_package_that_is_installed_and_broken_is_named_and_not_passed_over(resolution):
    """The real one imports httpx without declaring it: what is missing is said, and how to get it."""
    with _anew("renderers", httpx=None), pytest.raises(ConfigError, match=r"renderers is inst.*httpx.*pip install"):
        resolution(OTHER)


def test_a_package_that_fails_as_it_is_imported_is_broken(resolution, monkeypatch, tmp_path):
    """However it fails."""
    (tmp_path / "renderers").mkdir()
    (tmp_path / "renderers" / "__init__.py").write_text("raise AttributeError('no typing for this python')")
    monkeypatch.syspath_prepend(tmp_path)
    with _anew("renderers"), pytest.raises(ConfigError, match=r"renderers is inst.*AttributeError: no typing"):
        resolution()


def test_a_renderer_of_tinkers_that_cannot_be_made_stops_the_start(resolution, tinker_double):
    """It is no matter of its package."""
    tinker_double(fails=RendererError("it has no end"))
    with pytest.raises(ConfigError, match=r"--renderer tinker \(double\) does not work for 'mine/tuned': it has no"):
        resolution(OTHER)


@pytest.mark.parametrize("nearly", ["qwen/qwen3-8b", "QWEN/Qwen3-8B"])
def test_a_name_in_other_letters_is_told_which_one_may_be_meant(resolution, nearly):
    """Most such names are typed wrong."""
    assert f"it knows {QWEN!r}" in resolution(nearly).why


class Empty(PlainRenderer):
    """A renderer that is false, as containers without members are."""

    def __len__(self):
        return 0


def test_a_renderer_that_is_given_is_taken_also_if_it_is_false(resolution):
    """It is what was said."""
    given = Empty()
    assert resolution(renderer=given).make({}) is given


@pytest.mark.parametrize("given", [object(), PlainRenderer, "tests.render.doubles:class_factory"])
def test_what_is_given_must_be_a_renderer(resolution, given):
    """Not something else, nor the class of one."""
    with pytest.raises(ConfigError, match=r"is no gateway\.render\.protocol\.Renderer"):
        resolution(renderer=given)


def test_a_renderer_of_ones_own_says_itself_which_thoughts_it_keeps(resolution):
    """A policy that it does not have would look as if it was in force."""
    own: Any = PlainRenderer()
    with pytest.raises(ConfigError, match="--thinking-retention tool_cycle: the renderer PlainRenderer does not say"):
        resolution(renderer=own, retention="tool_cycle")
    own.effective_thinking_retention = "tool_cycle"
    assert resolution(renderer=own, retention="tool_cycle").make({}) is own
