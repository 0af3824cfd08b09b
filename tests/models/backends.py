"""Which backends are tried on which models: real tokenizers, each with a renderer as `gateway serve` makes it."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec

from gateway.render.options import Options
from gateway.render.protocol import Tokenizer
from gateway.render.registry import load_tokenizer, renderers_for
from gateway.render.translator import Translator
from tests.models import spelling
from tests.models.spelling import Pen, Spelling
from tests.models.stories import Manner
from tests.simulated import simulated
from tests.tokenizers.folders import folder_of


@dataclass(frozen=True, slots=True)
class Model:
    """A model whose tokenizer can be had."""

    folder: str
    """By which `tests.tokenizers.folders` knows it."""
    name: str
    spelling: Spelling
    manner: Manner = field(default_factory=Manner)


_UNTHINKING = Manner(thoughts=False)
_TALKING = Manner(tools=False, thoughts=False)
MODELS: Mapping[str, Model] = {
    "Qwen3": Model("qwen3", "Qwen/Qwen3-8B", spelling.QWEN3),
    "DeepSeek-V3": Model("deepseek_v3", "deepseek-ai/DeepSeek-V3", spelling.DEEPSEEK_V3, _UNTHINKING),
    "DeepSeek-V3.1": Model("deepseek_v3", "deepseek-ai/DeepSeek-V3.1", spelling.DEEPSEEK_V31, _UNTHINKING),
    "DeepSeek-V4": Model("deepseek_v4", "deepseek-ai/DeepSeek-V4-Flash-0731", spelling.DEEPSEEK_V4),
    "Llama 3.1": Model("llama3_1", "meta-llama/Llama-3.1-8B-Instruct", spelling.LLAMA3, _TALKING),
    "Gemma 3": Model("gemma3", "google/gemma-3-1b-it", spelling.GEMMA3, Manner(False, False, alternates=True)),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """A backend on a model."""

    model: str
    backend: str
    retention: str = "template"
    """Which reasoning of earlier turns bridges keep."""
    declares_tools: bool = True
    """Whether stories have tools at all: an engine whose template shows none is not asked with any."""
    renderer_name: str | None = None
    """Which of the backend's renderers, where that is not told by the model."""

    @property
    def is_possible(self) -> bool:
        """Whether what it needs is installed."""
        package = {"prime": "renderers", "tinker": "tinker_cookbook"}.get(self.backend)
        return package is None or find_spec(package) is not None

    @property
    def is_comparable(self) -> bool:
        """Whether it should write what the template does, whatever tools there are."""
        return self.backend in ("prime", "template") and self.retention == "template"

    def __str__(self) -> str:
        policy = "" if self.retention == "template" else f" {self.retention}"
        return f"{self.model} {self.backend}{policy}"

    @property
    def manner(self) -> Manner:
        """What the model's template takes."""
        manner = MODELS[self.model].manner
        return replace(manner, tools=manner.tools and self.declares_tools)

    @contextmanager
    def translator(self) -> Iterator[Translator]:
        """The renderer, spoken to in our own types; with a server to ask, if it asks one."""
        with ExitStack() as stack:
            url = stack.enter_context(_server(self.model)) if self.backend == "remote" else None
            options = Options(name=self.renderer_name, render_url=url, recollects=True)
            given = tokenizer(self.model)
            made, _ = renderers_for(
                self.backend, given, None, retention=self.retention, bridgeless_ok=False, options=options
            )
            yield made.get({})

    def pen(self, translator: Translator) -> Pen:
        """What writes as the model does."""
        return Pen(MODELS[self.model].spelling, translator.tokenizer, translator.stop_ids)


@contextmanager
def _server(model: str) -> Iterator[str]:
    """A simulated engine that renders by the model's template, which it does with none of the code under test."""
    chosen = MODELS[model]
    with simulated(tokenizer=folder_of(chosen.folder), model=chosen.name, max_model_len=10**6) as (url, _):
        yield url


@cache
def tokenizer(model: str) -> Tokenizer:
    """The real tokenizer, under the model's own name."""
    chosen = MODELS[model]
    return load_tokenizer(str(folder_of(chosen.folder)), chosen.name)


TRIALS = (
    Trial("Qwen3", "prime"),
    Trial("Qwen3", "prime", "all"),
    Trial("Qwen3", "template"),
    Trial("Qwen3", "template", "all"),
    Trial("Qwen3", "remote"),
    Trial("Qwen3", "tinker", renderer_name="qwen3"),
    Trial("Qwen3", "tinker", "all", renderer_name="qwen3"),
    Trial("DeepSeek-V3", "prime"),
    Trial("DeepSeek-V3", "template"),
    Trial("DeepSeek-V3", "remote", declares_tools=False),
    Trial("DeepSeek-V3.1", "tinker", renderer_name="deepseekv3"),
    Trial("DeepSeek-V4", "prime"),
    Trial("Llama 3.1", "tinker", renderer_name="llama3"),
    Trial("Gemma 3", "template"),
)
