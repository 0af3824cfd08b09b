"""`gateway check` on this machine and its model: what it finds before a first turn does."""

import resource

import pytest
import renderers

from gateway.edge.check import ENOUGH_FILES, check_files, check_model
from gateway.render.options import Options
from gateway.render.translator import Translator
from tests.edge.house import MODEL_NAME

pytestmark = pytest.mark.process  # much work: beside the gate


@pytest.mark.parametrize(
    ("limit", "status"),
    [(256, "warn"), (ENOUGH_FILES - 1, "warn"), (ENOUGH_FILES, "ok"), (resource.RLIM_INFINITY, "ok")],
)
def test_few_file_descriptors_are_a_warning(monkeypatch: pytest.MonkeyPatch, limit: int, status: str) -> None:
    """Each turn under way holds two sockets."""
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (limit, limit))

    found = check_files()

    assert found.status == status
    assert ("ulimit -n" in found.remedy) is (status == "warn")


@pytest.mark.parametrize(
    ("family", "retention", "lax", "status", "says"),
    [
        ("qwen3", "all", False, "ok", "user and tool"),
        ("qwen3", "tool_cycle", False, "warn", "each user message starts a new row"),
        ("qwen3", "template", False, "warn", "each user message starts a new row"),
        ("default", "all", False, "fail", "nothing extends"),
        ("default", "all", True, "warn", "nothing extends"),
    ],
)
def test_it_says_what_bridges(
    tokenizer_folder: str, family: str, retention: str, lax: bool, status: str, says: str
) -> None:
    """And which renderer that is and why, and gives ids of a prompt to ask an engine with."""
    options = Options(name=family)
    found, prompt = check_model(
        tokenizer_folder, "nobody/nothing", "auto", retention, bridgeless_ok=lax, options=options
    )

    by_name = {finding.check: finding for finding in found}
    assert list(by_name) == ["model", "renderer", "bridge", "thinking", "tool_call_ids", "answers"]
    assert by_name["bridge"].status == status
    assert says in by_name["bridge"].finding
    assert by_name["renderer"].finding == f"prime ({family}): --renderer-name {family}"
    assert prompt
    follows = "tool_cycle" if (family, retention) == ("qwen3", "template") else retention
    assert repr(follows if family == "qwen3" else "template") in by_name["thinking"].finding


def test_a_model_without_tokenizer_or_renderer_is_a_finding(tokenizer_folder: str, tmp_path: str) -> None:
    """With the reason that `serve` would end with."""
    nowhere, prompt = check_model(f"{tmp_path}/nowhere", "m", "auto", "all", bridgeless_ok=False)
    assert [(finding.check, finding.status) for finding in nowhere] == [("model", "fail")]
    assert "--model" in nowhere[0].finding
    assert prompt == []

    unknown, prompt = check_model(tokenizer_folder, MODEL_NAME, "nobody:nothing", "all", bridgeless_ok=False)
    assert [(finding.check, finding.status) for finding in unknown] == [("model", "ok"), ("renderer", "fail")]
    assert prompt == []


def test_a_renderer_that_bridges_user_messages_only_is_a_warning(
    tokenizer_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tool messages then start rows."""
    bridge = Translator.bridge

    def users_only(
        self: Translator, prompt: list[int], sampled: list[int], new: list, tools: list, history: list
    ) -> list[int] | None:
        return None if new[0].role == "tool" else bridge(self, prompt, sampled, new, tools, history)

    monkeypatch.setattr(Translator, "bridge", users_only)
    found, _ = check_model(tokenizer_folder, MODEL_NAME, "auto", "all", bridgeless_ok=False)

    assert "each tool message starts a new row" in found[2].finding


def qwen3_factory(tokenizer: object) -> object:
    """The package's own, as it is."""
    return renderers.create_renderer(tokenizer, renderers.config_from_name("qwen3"))


@pytest.mark.parametrize(
    ("factory", "says"),
    [("tests.render.doubles:plain_factory", "does not say"), (f"{__name__}:qwen3_factory", "tool_cycle")],
)
def test_a_renderer_of_ones_own_is_taken_at_its_word_about_thinking(
    tokenizer_folder: str, factory: str, says: str
) -> None:
    """It need not know the word."""
    found, _ = check_model(tokenizer_folder, MODEL_NAME, factory, "all", bridgeless_ok=False)

    assert found[3].status == "ok"
    assert says in found[3].finding


@pytest.mark.parametrize(
    ("factory", "status", "says"),
    [
        ("plain_factory", "ok", "in no prompt"),
        ("letter_factory", "ok", "nine letters and digits"),
        ("toolless_factory", "warn", "no history with a tool call"),
    ],
)
def test_it_says_what_the_template_does_with_tool_call_ids(
    tokenizer_folder: str, factory: str, status: str, says: str
) -> None:
    """Only a template that takes no tools needs a remedy."""
    spec = f"tests.render.doubles:{factory}"
    found, _ = check_model(tokenizer_folder, MODEL_NAME, spec, "all", bridgeless_ok=False)

    assert found[4].check == "tool_call_ids"
    assert found[4].status == status
    assert says in found[4].finding
    assert bool(found[4].remedy) is (status == "warn")


@pytest.mark.parametrize(
    ("spec", "options", "status", "says"),
    [
        ("prime", Options(), "ok", "family"),
        ("template", Options(), "ok", "hermes: its template writes calls so"),
        ("template", Options(tool_format="hermes"), "ok", "hermes: --tool-format says so"),
        ("tests.render.doubles:plain_factory", Options(), "ok", "itself"),
        ("tests.render.doubles:text_only_factory", Options(), "warn", "text only: it writes none"),
    ],
)
def test_it_says_how_answers_are_read(
    tokenizer_folder: str, spec: str, options: Options, status: str, says: str
) -> None:
    """And how to say it where nobody knows, so that agents with tools would be refused."""
    found, _ = check_model(tokenizer_folder, MODEL_NAME, spec, "all", bridgeless_ok=False, options=options)

    assert (found[5].check, found[5].status) == ("answers", status)
    assert says in found[5].finding
    assert ("--tool-format" in found[5].remedy) is (status == "warn")
