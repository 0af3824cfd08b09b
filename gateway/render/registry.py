"""The renderer that serves a model, one of it per set of template arguments.

A renderer is chosen at start, see `gateway.render.resolution`, and tried once on a small conversation, since one that
can never bridge would make every turn a segment of its own.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Any, cast
from weakref import WeakSet

import orjson

from gateway.core.canon import canonical_json
from gateway.core.types import JsonObject, Message, Messages, ToolCall, Tools
from gateway.errors import BadRequest, ConfigError, RendererError
from gateway.render import demo
from gateway.render.backends import working
from gateway.render.call_ids import CallIds
from gateway.render.certification import Audits, Certifications
from gateway.render.discovery import answer_format
from gateway.render.lock import lock_of
from gateway.render.options import NO_OPTIONS, Options, Resolution
from gateway.render.patience import patience
from gateway.render.protocol import Renderer, Tokenizer
from gateway.render.resolution import resolution_of
from gateway.render.stop_ids import length_to_stop
from gateway.render.token_text import token_texts
from gateway.render.translator import Translator
from gateway.render.trial import LOOK

_SAMPLE = "a tokenizer"
_THOUGHT = "two and two"
_CACHED_RENDERERS = 32
"""Renderers kept, one per distinct ``chat_template_kwargs``: bounded, since clients choose them."""


class _Once:
    """What is made when it is first asked for, by one thread while others wait, who share what came of it.

    Whose caller hangs up leaves, the one that makes it, too: then another of those that wait makes it.
    """

    def __init__(self, make: Callable[[], Translator]) -> None:
        self._make = make
        self._made: Translator | None = None
        self._error: Exception | None = None
        self._tries = 0
        self._making = Lock()

    def get(self) -> Translator:
        """The one translator; where it could not be made, it is tried again for whoever comes later."""
        tries = self._tries
        patience().take(self._making)
        try:
            if self._made is None:
                if self._error is None or self._tries == tries:
                    self._try()
                if self._error is not None:
                    raise self._error
            assert self._made is not None
            return self._made
        finally:
            self._making.release()

    def _try(self) -> None:
        self._error = None
        try:
            self._made = self._make()
        except Exception as error:
            if patience().is_left:
                raise
            self._error = error
        self._tries += 1


class Renderers:
    """The renderers of one model; all share one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, chosen: Resolution) -> None:
        self.tokenizer = tokenizer
        self.chosen = chosen
        """Which one it is, and why."""
        self._tokens = token_texts(tokenizer)  # at start: a large vocabulary takes a fifth of a second
        self.certifications: WeakSet[Certifications[Any]] = WeakSet()
        """What is known of the bridges of each of them that certifies them, while it is in use.

        Another one takes its place for each renderer that is made; who counts goes on with the one that it has.
        """
        self._adding = Lock()
        self.audits = Audits()
        """How their bridges' audits ended, of those that are in use no more, too."""
        self._get = lru_cache(_CACHED_RENDERERS)(lambda text: _Once(lambda: self._made(orjson.loads(text))))

    def text_of(self, token_id: int) -> tuple[str, bytes]:
        """The text of a token id, and its bytes, which need not be valid UTF-8 alone."""
        return self._tokens.of(token_id)

    def get(self, template_kwargs: JsonObject) -> Translator:
        """The renderer under these template arguments; may be asked on any thread.

        Raises:
            BadRequest: the renderer does not take them.
        """
        return self._get(canonical_json(dict(template_kwargs))).get()

    def _made(self, template_kwargs: JsonObject) -> Translator:
        """One that waits for a network holds the tokenizer's lock only while it tokenizes, see `backends`."""
        with nullcontext() if self.chosen.backend == "remote" else lock_of(self.tokenizer):
            translator = Translator(self.chosen.make(template_kwargs), self.tokenizer).learn()
        found = getattr(translator.renderer, "certifications", None)
        if isinstance(found, Certifications):
            found.count_in(self.audits)
            with self._adding:
                self.certifications = WeakSet([*self.certifications, found])
        return translator

    @property
    def calls_at_once(self) -> int:
        """How many calls of these renderers may run at once: one, unless they spend their time waiting elsewhere."""
        return self.get({}).calls_at_once

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


def renderers_for(
    spec: str,
    tokenizer: Tokenizer,
    injected: Renderer | None,
    *,
    retention: str,
    bridgeless_ok: bool,
    options: Options = NO_OPTIONS,
) -> tuple[Renderers, list[str]]:
    """The renderers for ``--renderer`` `spec`, and what an operator should know about them.

    `injected` comes before `spec`: a renderer object of the caller's own.

    Raises:
        ConfigError: there is none for this model, or it can never bridge and `bridgeless_ok` is not set.
    """
    name = tokenizer.name_or_path
    if injected is not None and spec != "auto":
        raise ConfigError(f"--renderer {spec}: a renderer object was given, too; leave one of them out")
    given = spec if injected is None else injected
    chosen = resolution_of(name, tokenizer, given, retention=retention, options=options)
    with working(chosen, name):
        renderers = Renderers(tokenizer, chosen)
        notes = _try_out(renderers, bridgeless_ok=bridgeless_ok)
        notes = _note_on_thoughts(renderers) + notes + _note_on_call_ids(renderers)
        return renderers, notes + _note_on_answers(renderers, options)


def _note_on_thoughts(renderers: Renderers) -> list[str]:
    """Where bridges keep reasoning that the template strips, the operator is told."""
    translator, name = renderers.get({}), renderers.tokenizer.name_or_path
    if translator.thinking_retention != "all":
        return []
    thought = Message("assistant", "ok", reasoning=_THOUGHT)
    asked, more = Message("user", "?"), Message("user", "!")
    if _says(translator, [asked, thought, more], _THOUGHT) or not _says(translator, [asked, thought], _THOUGHT):
        return []
    return [
        f"thinking_retention 'all': bridges keep reasoning that the template of {name!r} strips at a user's message"
    ]


def bridged_roles(renderers: Renderers) -> set[str]:
    """Which messages, ``user`` and ``tool``, extend what was sampled in a small conversation, thoughts included.

    Where thoughts leave none, it is those that extend a bare word.
    """
    translator, asked = renderers.get({}), Message("user", "?")
    thinks = _says(translator, [asked, Message("assistant", "ok", reasoning=_THOUGHT)], _THOUGHT)
    thought = _THOUGHT if thinks else None
    said = Message("assistant", "ok", reasoning=thought)
    called = Message("assistant", reasoning=thought, tool_calls=(ToolCall("call_0", "look", "{}"),))
    more, result = Message("user", "!"), Message("tool", "!", tool_call_id="call_0")
    tries = (said, more, ()), (called, result, (LOOK,))
    found: set[str] = {new.role for answer, new, tools in tries if _bridges(translator, answer, new, tools)}
    if found or not thinks:
        return found
    word, stop = translator.tokenizer.encode("ok", add_special_tokens=False), translator.stop_ids[0]
    bare = partial(_bridges, translator, Message("assistant", "ok"), tools=(), sampled=[*word, stop])
    return {new.role for new in (more, result) if bare(new)}


def _says(translator: Translator, history: Messages, text: str) -> bool:
    """Whether a text stands in the render of a history; not where that is refused, as thoughts are by some."""
    try:
        return text in translator.tokenizer.decode(translator.render(history, (), opened=False))
    except (BadRequest, RendererError):
        return False


def _bridges(
    translator: Translator, answer: Message, new: Message, tools: Tools, sampled: list[int] | None = None
) -> bool:
    asked = Message("user", "?")
    try:
        prompt = translator.render([asked], tools)
        sampled = sampled or _sampled(translator, prompt, [asked, answer], tools)
        bridged = translator.bridge(prompt, sampled, [new], tools, [asked, answer])
    except (BadRequest, RendererError):
        if not tools:  # a template need not know any, but each knows a word
            raise
        return _bridges(translator, Message("assistant", "ok"), new, ())
    known = prompt + sampled
    return (bridged or [])[: len(known)] == known


def _sampled(translator: Translator, prompt: list[int], history: Messages, tools: Tools) -> list[int]:
    """The answer at the end of a history, as the template itself writes it behind a prompt; else its bare text."""
    whole = translator.render(history, tools, opened=False)
    ids = whole[len(prompt) :] if whole[: len(prompt)] == prompt else []
    end = length_to_stop(ids, translator.stop_ids)
    text = ids[:end] or translator.tokenizer.encode(history[-1].content or "ok", add_special_tokens=False)
    return [*text, ids[end] if end < len(ids) else translator.stop_ids[0]]


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


def _note_on_answers(renderers: Renderers, options: Options) -> list[str]:
    """Where tools are refused, and where what was said of how calls are written is not what the template shows."""
    translator, name = renderers.get({}), renderers.tokenizer.name_or_path
    if not translator.takes_tools:
        return [f"the renderer for {name!r}: requests with tools are refused; answers are read as {translator.reads}"]
    said = translator.answers
    if said is None or said.form is None or options.tool_format is None:
        return []
    found = answer_format(renderers.tokenizer, None, {})
    reads_alike = found.form is None or found.form.read_call is said.form.read_call
    if not found.takes_tools or reads_alike:
        return []
    return [f"--tool-format {said.name}: the template of {name!r} writes calls as {found.name}, it seems"]
