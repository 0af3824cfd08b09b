"""A model's chat template, applied as vLLM applies it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import orjson

from gateway.sim.personality import Json, section

_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")


class TemplateFailed(Exception):
    """The template refuses these messages, or cannot be applied to them: its own words."""


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """The template of a tokenizer's folder, and the special tokens that it may name."""

    source: str
    tokens: Mapping[str, str]

    @classmethod
    def of(cls, folder: str | PathLike[str]) -> "ChatTemplate | None":
        """The one that is in `folder`; ``None`` where there is none."""
        configured, alone = Path(folder) / "tokenizer_config.json", Path(folder) / "chat_template.jinja"
        config = orjson.loads(configured.read_bytes()) if configured.is_file() else {}
        source = alone.read_text() if alone.is_file() else config.get("chat_template")
        tokens = {name: _text(config[name]) for name in _SPECIAL if config.get(name)}
        return cls(source, tokens) if isinstance(source, str) else None

    def apply(self, messages: Sequence[Json], tools: Sequence[Json], variables: Mapping[str, object]) -> str:
        """The text of a history; tool calls and tools are shown in the form that vLLM gives them.

        Raises:
            TemplateFailed: see there.
        """
        from jinja2 import TemplateError  # only who renders needs it

        shown = {"messages": [_message(one) for one in messages], "tools": [_tool(one) for one in tools] or None}
        try:
            text: str = _compiled(self.source).render(**{**self.tokens, **variables, **shown})
        except (TemplateError, TypeError, ValueError) as error:
            raise TemplateFailed(str(error)) from error
        return text


@lru_cache(maxsize=4)  # it takes longer than to apply it
def _compiled(source: str) -> Any:  # a jinja2.Template
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # As transformers sets templates up, for which models' templates are written.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    return environment.from_string(source)


def _text(token: object) -> str:
    return str(token["content"] if isinstance(token, dict) else token)


def _to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)  # noqa: DTZ005  # templates mean the server's own day


def _message(message: Json) -> Json:
    """Text parts as one text, arguments as objects, and reasoning under both of its names."""
    content, calls = message.get("content"), message.get("tool_calls")
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", "")) for part in content)
    reasoning = message.get("reasoning") or message.get("reasoning_content")
    shown = {**message, "content": content or ""}
    if reasoning:
        shown |= {"reasoning": reasoning, "reasoning_content": reasoning}
    if isinstance(calls, list):
        shown["tool_calls"] = [{**call, "function": _called(section(call, "function"))} for call in calls]
    return shown


def _called(function: Json) -> Json:
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            arguments = {}
    return {**function, "arguments": arguments}


def _tool(tool: Json) -> Json:
    function = section(tool, "function")
    known = {name: function.get(name) for name in ("name", "description", "parameters")}
    return {"type": "function", "function": known}
