"""Which renderer serves a model, and one of it per set of template arguments.

A renderer is chosen at start: an injected object, ``module:factory``, or PrimeIntellect's for a model that it
knows by name. It is tried once on a small conversation, since a renderer that can never bridge would make
every turn a segment of its own.
"""

import importlib
import os
from collections.abc import Callable
from functools import lru_cache
from typing import cast

import orjson

from gateway.core.canon import canonical_json
from gateway.core.types import JsonObject, Message
from gateway.errors import BadRequest, ConfigError
from gateway.render import prime
from gateway.render.protocol import Renderer, Tokenizer
from gateway.render.translator import Translator

_CACHED_RENDERERS = 32
"""Renderers kept, one per distinct ``chat_template_kwargs``: bounded, since clients choose them."""


class Renderers:
    """The renderers of one model; all share one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, make: Callable[[JsonObject], Translator]) -> None:
        self.tokenizer = tokenizer
        self._get = lru_cache(_CACHED_RENDERERS)(lambda text: make(orjson.loads(text)))
        self.longest_token_chars = max(map(len, tokenizer.get_vocab()), default=1)

    def get(self, template_kwargs: JsonObject) -> Translator:
        """The renderer under these template arguments.

        Raises:
            BadRequest: the renderer does not take them.
        """
        return self._get(canonical_json(dict(template_kwargs)))


def load_tokenizer(path: str, name: str) -> Tokenizer:
    """The tokenizer found at `path` (a folder or a hub id), called `name`, by which renderers are matched."""
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from transformers import AutoTokenizer

    try:
        tokenizer = cast(Tokenizer, AutoTokenizer.from_pretrained(path))
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"--model {path}: no tokenizer could be loaded from there: {reason}") from None
    tokenizer.name_or_path = name
    return tokenizer


def resolve(
    spec: str,
    tokenizer: Tokenizer,
    *,
    thinking_retention: str,
    allow_bridgeless: bool,
    injected: Renderer | None = None,
) -> tuple[Renderers, list[str]]:
    """The renderers for ``--renderer`` `spec`, and what an operator should know about them.

    `injected` comes before `spec`: a renderer object of the caller's own.

    Raises:
        ConfigError: there is none for this model, or it can never bridge and `allow_bridgeless` is not set.
    """
    notes = []
    if injected is not None or ":" in spec:
        make = _only(Translator(injected or _from_factory(spec, tokenizer), tokenizer))
    elif spec in ("auto", "prime"):
        if not prime.knows(tokenizer.name_or_path) and not allow_bridgeless:
            raise ConfigError(
                f"no renderer is known for model {tokenizer.name_or_path!r}: name the model it was made from with "
                "--model-name, bring one with --renderer module:factory, or render every turn in full with "
                "--allow-bridgeless"
            )
        make = _prime(tokenizer, None if thinking_retention == "template" else thinking_retention)
        kept, own = (made({}).thinking_retention for made in (make, _prime(tokenizer, None)))
        if kept != own:
            notes.append(
                f"thinking_retention {kept!r}: earlier reasoning stays in the prompt, though the template of "
                f"{tokenizer.name_or_path!r} would follow {own!r}"
            )
    else:
        raise ConfigError(f"--renderer {spec}: must be auto, prime or module:factory")
    renderers = Renderers(tokenizer, make)
    return renderers, notes + _try_out(renderers, allow_bridgeless=allow_bridgeless)


def _from_factory(spec: str, tokenizer: Tokenizer) -> Renderer:
    module, _, name = spec.partition(":")
    try:
        renderer = getattr(importlib.import_module(module), name)(tokenizer)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"--renderer {spec}: {error}") from error
    if not isinstance(renderer, Renderer):
        raise ConfigError(
            f"--renderer {spec}: {type(renderer).__name__} lacks methods of gateway.render.protocol.Renderer"
        )
    return renderer


def _only(translator: Translator) -> Callable[[JsonObject], Translator]:
    def make(template_kwargs: JsonObject) -> Translator:
        if template_kwargs:
            raise BadRequest("this gateway's renderer takes no chat_template_kwargs", param="chat_template_kwargs")
        return translator

    return make


def _prime(tokenizer: Tokenizer, retention: str | None) -> Callable[[JsonObject], Translator]:
    def make(template_kwargs: JsonObject) -> Translator:
        renderer = prime.prime_renderer(tokenizer, thinking_retention=retention, template_kwargs=template_kwargs)
        return Translator(renderer, tokenizer, thinking_retention=prime.retention_of(renderer))

    return make


def _try_out(renderers: Renderers, *, allow_bridgeless: bool) -> list[str]:
    """Bridge a small conversation both ways that it can go on; refuse a renderer that can do neither."""
    translator = renderers.get({})
    prompt = translator.render([Message("user", "?")], ())
    answer = [*renderers.tokenizer.encode("ok", add_special_tokens=False), translator.stop_ids[0]]
    known = prompt + answer

    def bridges(message: Message) -> bool:
        bridged = translator.bridge(prompt, answer, [message], ())
        return bridged is not None and bridged[: len(known)] == known

    after_user, after_tool = bridges(Message("user", "!")), bridges(Message("tool", "!", tool_call_id="call_0"))
    name = renderers.tokenizer.name_or_path
    if not (after_user or after_tool):
        if not allow_bridgeless:
            raise ConfigError(
                f"the renderer for {name!r} can never bridge, so every turn would be tokenized anew: choose one that "
                "can with --model-name or --renderer module:factory, or accept that with --allow-bridgeless"
            )
        return [f"the renderer for {name!r} never bridges: every turn is rendered in full and is a row of its own"]
    if not after_user:
        return [f"the renderer for {name!r} does not bridge user messages: each one starts a new row"]
    return []
