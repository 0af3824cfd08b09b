"""Which renderer serves a model, and one of it per set of template arguments.

A renderer is chosen at start: an injected object, ``module:factory``, our own for the demo's tokenizer, or
PrimeIntellect's for a model that it knows by name. It is tried once on a small conversation, since a renderer
that can never bridge would make every turn a segment of its own.
"""

import importlib
import os
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import lru_cache, partial
from pathlib import Path
from typing import cast

import orjson

from gateway.core.canon import canonical_json
from gateway.core.types import JsonObject, Message
from gateway.errors import BadRequest, ConfigError, RendererError
from gateway.render import demo, prime
from gateway.render.call_ids import CallIds
from gateway.render.formats import FORMATS
from gateway.render.markers import Markers
from gateway.render.protocol import Renderer, Tokenizer
from gateway.render.token_text import token_texts
from gateway.render.translator import Translator

Maker = Callable[[JsonObject], Translator]

_SAMPLE = "a tokenizer"
_CACHED_RENDERERS = 32
"""Renderers kept, one per distinct ``chat_template_kwargs``: bounded, since clients choose them."""


class Renderers:
    """The renderers of one model; all share one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, make: Maker) -> None:
        self.tokenizer = tokenizer
        self._tokens = token_texts(tokenizer)  # at start: a large vocabulary takes a fifth of a second
        self._get = lru_cache(_CACHED_RENDERERS)(lambda text: make(orjson.loads(text)).learn())

    def text_of(self, token_id: int) -> tuple[str, bytes]:
        """The text of a token id, and its bytes, which need not be valid UTF-8 alone."""
        return self._tokens.of(token_id)

    def get(self, template_kwargs: JsonObject) -> Translator:
        """The renderer under these template arguments.

        Raises:
            BadRequest: the renderer does not take them.
        """
        return self._get(canonical_json(dict(template_kwargs)))

    def small_prompt(self) -> list[int]:
        """The ids of a conversation of one word, to probe an engine with: what it answers does not matter."""
        return self.get({}).render([Message("user", "?")], ())


def load_tokenizer(path: str, name: str) -> Tokenizer:
    """The tokenizer found at `path` (a folder or a hub id), called `name`, by which renderers are matched.

    The path ``rollout-gateway/demo`` is the folder that comes with the package.
    """
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from transformers import AutoTokenizer

    if path.startswith(("/", ".")) and not Path(path).is_dir():
        raise ConfigError(f"--model {path}: there is no such folder")
    try:
        tokenizer = cast(Tokenizer, AutoTokenizer.from_pretrained(demo.FOLDER if path == demo.MODEL_NAME else path))
        if tokenizer.decode(tokenizer.encode(_SAMPLE, add_special_tokens=False)) != _SAMPLE:
            raise ValueError("it does not spell, as if its vocabulary was missing")
    except Exception as error:  # noqa: BLE001  # tokenizers raises bare ones
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"--model {path}: no tokenizer could be loaded from there: {reason}") from None
    tokenizer.name_or_path = name
    return tokenizer


def resolve(
    spec: str, tokenizer: Tokenizer, injected: Renderer | None, *, retention: str, bridgeless_ok: bool
) -> tuple[Renderers, list[str]]:
    """The renderers for ``--renderer`` `spec`, and what an operator should know about them.

    `injected` comes before `spec`: a renderer object of the caller's own.

    Raises:
        ConfigError: there is none for this model, or it can never bridge and `bridgeless_ok` is not set.
    """
    try:
        make, notes = _maker(spec, tokenizer, injected, None if retention == "template" else retention)
        renderers = Renderers(tokenizer, make)
        notes = [*notes, *_try_out(renderers, bridgeless_ok=bridgeless_ok)]
        return renderers, notes + _note_on_call_ids(renderers)
    except RendererError as error:
        reason = f"{error.message}: {error.__cause__}" if error.__cause__ else error.message
        raise ConfigError(f"--renderer {spec} does not work for {tokenizer.name_or_path!r}: {reason}") from error


def _maker(spec: str, tokenizer: Tokenizer, given: Renderer | None, retention: str | None) -> tuple[Maker, list[str]]:
    name = tokenizer.name_or_path
    if given is not None or ":" in spec:
        return partial(_fixed, Translator(given or _from_factory(spec, tokenizer), tokenizer)), []
    if spec == "demo" or (spec == "auto" and demo.names_demo(tokenizer)):
        if retention == "tool_cycle":
            raise ConfigError("--thinking-retention tool_cycle: the demo's renderer keeps all reasoning")
        return partial(_demo, tokenizer), []
    if spec not in ("auto", "prime"):
        raise ConfigError(f"--renderer {spec}: must be auto, prime, demo or module:factory")
    kept, own = (
        _kept(prime.prime_renderer(tokenizer, thinking_retention=policy, template_kwargs={}))
        for policy in (retention, None)
    )
    note = f"thinking_retention {kept!r}: bridges keep reasoning that the template of {name!r} ({own!r}) would strip"
    return partial(_prime, tokenizer, retention), [note] if kept != own else []


def _from_factory(spec: str, tokenizer: Tokenizer) -> Renderer:
    module, _, name = spec.partition(":")
    try:
        renderer = getattr(importlib.import_module(module), name)(tokenizer)
    except Exception as error:
        raise ConfigError(f"--renderer {spec}: {type(error).__name__}: {error}") from error
    if not isinstance(renderer, Renderer):
        raise ConfigError(f"--renderer {spec}: {type(renderer).__name__} is no gateway.render.protocol.Renderer")
    return renderer


def _fixed(translator: Translator, template_kwargs: JsonObject) -> Translator:
    if template_kwargs:
        raise BadRequest("this gateway's renderer takes no chat_template_kwargs", param="chat_template_kwargs")
    return translator


def _prime(tokenizer: Tokenizer, retention: str | None, template_kwargs: JsonObject) -> Translator:
    renderer = prime.prime_renderer(tokenizer, thinking_retention=retention, template_kwargs=template_kwargs)
    kept, family = _kept(renderer), prime.family_of(tokenizer)
    if family not in FORMATS:
        return Translator(renderer, tokenizer, kept=kept)
    markers = Markers(FORMATS[family], tokenizer, renderer.get_stop_token_ids())
    return Translator(renderer, tokenizer, kept=kept, markers=markers)


def _kept(renderer: Renderer) -> str | None:
    """Which reasoning of earlier turns a renderer keeps; ``None`` when it does not say."""
    return getattr(renderer, "effective_thinking_retention", None)


def _demo(tokenizer: Tokenizer, template_kwargs: JsonObject) -> Translator:
    try:
        # A tokenizer of its own: how it treats control tokens in a text is a state, which others must not change
        # while a stream is read on another thread.
        renderer = demo.DemoRenderer(deepcopy(tokenizer), template_kwargs)
    except ValueError as error:
        if not template_kwargs:
            raise RendererError(str(error)) from None
        raise BadRequest(str(error), param="chat_template_kwargs") from None
    return Translator(renderer, tokenizer, kept=demo.THINKING_RETENTION, markers=renderer.markers)


def bridged_roles(renderers: Renderers) -> set[str]:
    """Which messages, ``user`` and ``tool``, extend what was sampled in a small conversation."""
    translator = renderers.get({})
    prompt = translator.render([Message("user", "?")], ())
    answer = [*renderers.tokenizer.encode("ok", add_special_tokens=False), translator.stop_ids[0]]
    known = prompt + answer

    def bridges(message: Message) -> bool:
        return (translator.bridge(prompt, answer, [message], ()) or [])[: len(known)] == known

    return {m.role for m in (Message("user", "!"), Message("tool", "!", tool_call_id="call_0")) if bridges(m)}


def _try_out(renderers: Renderers, *, bridgeless_ok: bool) -> list[str]:
    """Bridge a small conversation both ways that it can go on; refuse a renderer that can do neither."""
    bridged, name = bridged_roles(renderers), renderers.tokenizer.name_or_path
    if "user" in bridged:
        return []
    if bridged:
        return [f"the renderer for {name!r} does not bridge user messages: each one starts a new row"]
    if bridgeless_ok:
        return [f"the renderer for {name!r} never bridges: every turn is rendered in full and is a row of its own"]
    raise ConfigError(
        f"model {name!r} has no renderer that can bridge, so every turn would be tokenized anew: name the model it "
        "was made from with --model-name, bring one with --renderer module:factory, or take it with --allow-bridgeless"
    )


CALL_IDS: Mapping[CallIds, str] = {
    "hidden": "tool-call ids stand in no prompt",
    "shown": "tool-call ids stand in the prompt: the model's own where it writes them, else those of the gateway",
    "demanded": "tool-call ids stand in the prompt and must have nine letters and digits: others are replaced there",
    "refused": "no history with a tool call can be rendered, so agents that use tools will be answered with an error",
}


def _note_on_call_ids(renderers: Renderers) -> list[str]:
    kind, name = renderers.get({}).call_ids, renderers.tokenizer.name_or_path
    return [] if kind == "hidden" else [f"the renderer for {name!r}: {CALL_IDS[kind]}"]
