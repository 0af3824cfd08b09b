"""The backend over PrimeIntellect's ``renderers`` (PyPI), whose interface has two generations.

Up to 0.1.7 a renderer is made of a name, takes no template arguments, and its bridges keep all reasoning. Since 0.1.8
it is made of a typed configuration, whose policy says which reasoning its bridges keep. In both, a full render does as
the model's template. Images and other parts that are no text, which its renderers leave out silently, are refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gateway.core.types import JsonObject
from gateway.errors import BadRequest, ConfigError, RendererError
from gateway.render.formats import FORMATS
from gateway.render.lock import lock_of
from gateway.render.markers import Markers
from gateway.render.package import imported
from gateway.render.parts import joined, joined_or_refused
from gateway.render.protocol import MessageDicts, Renderer, TokenHolder, Tokenizer

DEFAULT = "default"
"""The package's renderer for templates that it does not know, which never bridges."""
_OWN_PARSERS = frozenset({"tool_parser", "reasoning_parser"})
"""All that could be configured up to 0.1.7, beside what `thinking_retention` says."""
_CALLED, _INSTALL = "the package renderers", "pip install 'rollout-gateway[prime]'"
_POLICIES = {"preserve_all_thinking": "all", "preserve_thinking_between_tool_calls": "tool_cycle"}


@dataclass(frozen=True, slots=True)
class Prime:
    """The package, as it is installed."""

    package: Any  # it is optional, and has no public type information

    @property
    def version(self) -> str:
        """Its version, as an operator knows it."""
        from importlib import metadata

        return metadata.version("renderers")

    @property
    def is_typed(self) -> bool:
        """Whether a renderer is made of a typed configuration."""
        return hasattr(self.package, "config_from_name")

    @property
    def families(self) -> list[str]:
        """The names of its renderers."""
        self.package.base._populate_registry()
        return sorted(self.package.base.RENDERER_REGISTRY)

    def nearly(self, model: str) -> str | None:
        """A model that it knows by this name in other letters, capital or small."""
        known: Mapping[str, str] = self.package.base.MODEL_RENDERER_MAP
        return next((name for name in known if name.lower() == model.lower()), None)

    def family_of(self, model: str) -> str | None:
        """The renderer for a model that the package knows by exactly this name."""
        known: Mapping[str, str] = self.package.base.MODEL_RENDERER_MAP
        return known.get(model)


def installed() -> Prime:
    """The package.

    Raises:
        PackageAbsent: it is not installed.
        ConfigError: it is, and cannot be imported.
    """
    imported("renderers.base", called=_CALLED, remedy=_INSTALL)
    return Prime(imported("renderers", called=_CALLED, remedy=_INSTALL))


class PrimeRenderer:
    """Fulfils `gateway.render.protocol.Renderer` by a renderer of the package."""

    def __init__(self, wrapped: Renderer, markers: Markers | None, retention: str | None, *, at_users: bool) -> None:
        self.wrapped = wrapped
        """The package's own."""
        self.markers = markers
        """What its answers are read by, where that is known."""
        self.effective_thinking_retention = retention
        """Which reasoning of earlier turns its bridges keep; ``None`` when it does not say."""
        self.parse_response = wrapped.parse_response  # these two are its own, whatever they take
        self.get_stop_token_ids = wrapped.get_stop_token_ids
        self.supports_tools = getattr(wrapped, "supports_tools", True)
        """Whether it can read tool calls: the package's default cannot, unless it is told how."""
        self._at_users = at_users

    def render_ids(
        self, messages: MessageDicts, *, tools: MessageDicts | None = None, add_generation_prompt: bool = False
    ) -> Sequence[int]:
        """The ids of a history.

        Raises:
            MultimodalUnsupported: it holds something else than text.
        """
        texts = joined_or_refused(messages)
        return self.wrapped.render_ids(texts, tools=tools, add_generation_prompt=add_generation_prompt)

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: MessageDicts,
        *,
        tools: MessageDicts | None = None,
    ) -> Sequence[int] | TokenHolder | None:
        """The next prompt; ``None`` also for what is no text, and where the policy has the template decide."""
        texts = joined(new_messages)
        if texts is None or not (self._at_users or all(message.get("role") != "user" for message in texts)):
            return None
        return self.wrapped.bridge_to_next_turn(previous_prompt_ids, previous_completion_ids, texts, tools=tools)


def prime_renderer(
    name: str,
    tokenizer: Tokenizer,
    *,
    model: str,
    config: JsonObject,
    retention: str | None,
    template_kwargs: JsonObject,
) -> PrimeRenderer:
    """The package's renderer called `name`; `config` comes before `retention`, which is ``None`` for the template's.

    Raises:
        ConfigError: there is none of that name, or it is not to be configured so.
        BadRequest: it does not take these template arguments.
        RendererError: it cannot be made for this tokenizer.
    """
    prime = installed()
    if name not in prime.families:
        raise ConfigError(
            f"--renderer-name {name}: renderers {prime.version} has {', '.join(prime.families)}, and none of that name"
        )
    make = _typed if prime.is_typed else _by_keywords
    with lock_of(tokenizer), _called(tokenizer, model):  # some look at it to tell variants of one template apart
        made, kept, at_users = make(prime, name, tokenizer, config, retention, template_kwargs)
    family = name.replace("_", "-")  # as some were spelt up to 0.1.6
    markers = Markers(FORMATS[family], tokenizer, made.get_stop_token_ids()) if family in FORMATS else None
    return PrimeRenderer(made, markers, kept, at_users=at_users)


_Made = tuple[Renderer, str | None, bool]
"""A renderer, which reasoning its bridges keep, and whether it may bridge behind a user's message."""


def _typed(
    prime: Prime,
    name: str,
    tokenizer: Tokenizer,
    config: JsonObject,
    retention: str | None,
    template_kwargs: JsonObject,
) -> _Made:
    """A renderer since 0.1.8."""
    policy = {} if retention is None or name == DEFAULT else {"thinking_retention": retention}
    try:
        typed = type(prime.package.config_from_name(name))(**policy | dict(config))
    except ValidationError as error:
        raise ConfigError(f"--renderer-config {_first(error)}") from None
    try:
        made: Renderer = prime.package.create_renderer(tokenizer, typed, chat_template_kwargs=dict(template_kwargs))
    except Exception as error:
        reason = _first(error)
        if not template_kwargs:
            raise RendererError(f"{name} cannot be made: {reason}") from error
        raise BadRequest(f"chat_template_kwargs {reason}", param="chat_template_kwargs") from None
    return made, getattr(made, "effective_thinking_retention", None), True


def _by_keywords(
    prime: Prime,
    name: str,
    tokenizer: Tokenizer,
    config: JsonObject,
    retention: str | None,
    template_kwargs: JsonObject,
) -> _Made:
    """A renderer up to 0.1.7, whose bridges know no policy: at a user's message they are used under ``all`` only."""
    if template_kwargs:
        why = f"renderers {prime.version} takes none; 0.1.8 and later do"
        raise BadRequest(f"chat_template_kwargs: {why}", param="chat_template_kwargs")
    retention = str(config["thinking_retention"]) if "thinking_retention" in config else retention
    if retention not in (None, "all", "tool_cycle"):
        raise ConfigError(f"--renderer-config thinking_retention: must be all or tool_cycle, not {retention}")
    fields = {field: value for field, value in config.items() if field != "thinking_retention"}
    for field in fields.keys() - (_OWN_PARSERS if name == DEFAULT else frozenset()):
        # With these a full render would keep what the template strips; a bridge does so without them.
        remedy = f"say --thinking-retention {_POLICIES[field]}" if field in _POLICIES else "0.1.8 and later may"
        raise ConfigError(f"--renderer-config {field}: renderers {prime.version} does not take it; {remedy}")
    try:
        made: Renderer = prime.package.create_renderer(tokenizer, renderer=name, **fields)
    except Exception as error:
        raise RendererError(f"{name} cannot be made: {_first(error)}") from error
    return made, None if name == DEFAULT else retention, retention == "all"


def _first(error: Exception) -> str:
    """The first thing that is wrong, and the field if it is one."""
    if not isinstance(error, ValidationError):
        return str(error).partition("\n")[0] or type(error).__name__
    first = error.errors(include_url=False)[0]
    field, reason = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
    return f"{field}: {reason}" if field else reason


@contextmanager
def _called(tokenizer: Tokenizer, model: str) -> Iterator[None]:
    """A tokenizer under the name of its model, wherever it was loaded from, for the one who holds its lock."""
    before = tokenizer.name_or_path
    tokenizer.name_or_path = model
    try:
        yield
    finally:
        tokenizer.name_or_path = before
