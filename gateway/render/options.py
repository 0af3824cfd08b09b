"""What is said of a renderer, and the one that is chosen."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import orjson

from gateway.core.types import JsonObject
from gateway.errors import ConfigError
from gateway.render.protocol import Renderer, Tokenizer
from gateway.render.recollection import Recollection

Backend = Literal["own", "demo", "prime", "tinker", "template", "remote"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is said of a renderer beside which one it is.

    Each is for some backends only. What is said to others is refused, but for `api_key` and `audit_interval`, which
    they pass over: those always have a value.
    """

    name: str | None = None
    """Which of the backend's renderers: prime's family, or tinker's name."""
    config: JsonObject | None = field(default=None, hash=False)
    """The fields of prime's typed configuration, of which ``name`` says as much as `name`."""
    tool_format: str | None = None
    """How the model writes tool calls, where its template does not show."""
    render_url: str | None = None
    """The server that `remote` asks."""
    api_key: str = field(default="", repr=False)
    """What that server wants, if anything."""
    image_processor: object = None
    """What tinker's renderers of models with images want; the others take text alone."""
    audit_interval: int = 50
    """One in how many certified bridges is held against a full render."""
    recollects: bool = False
    """Whether certified bridges remember what prompts say, for callers that do not tell the history."""

    def recollection(self) -> Recollection | None:
        """What one renderer remembers."""
        return Recollection() if self.recollects else None

    def __post_init__(self) -> None:
        """Take what can be meant.

        Raises:
            ConfigError: a name is empty, or the interval is.
        """
        if self.name == "":
            raise ConfigError("--renderer-name: it is empty; name a renderer, or leave it out")
        if self.audit_interval < 1:
            raise ConfigError(f"--bridge-audit-interval {self.audit_interval}: must be 1, which holds all, or more")


NO_OPTIONS = Options()


def config_of(text: str) -> JsonObject:
    """What is said as JSON for `Options.config`.

    Raises:
        ConfigError: it is no JSON object.
    """
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"--renderer-config: it is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ConfigError('--renderer-config: it must be a JSON object, like {"thinking_retention": "tool_cycle"}')
    return fields


@dataclass(frozen=True, slots=True)
class Resolution:
    """The renderer that was chosen for a model."""

    backend: Backend
    name: str
    """Which of the backend's renderers."""
    why: str
    make: Callable[[JsonObject], Renderer]
    """It, under some template arguments; raises `BadRequest` where it does not take them."""

    def __str__(self) -> str:
        return f"{self.backend} ({self.name}): {self.why}"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a renderer is wanted for; `retention` is ``None`` for the template's own policy."""

    model: str
    tokenizer: Tokenizer
    retention: str | None
    options: Options
    passed_over: tuple[str, ...] = ()
    """Why what would have come first does not serve."""
    fields: JsonObject = field(default_factory=dict)
    """Those of `Options.config`, but for the name."""

    def because(self, why: str) -> str:
        """A reason, behind those for which others were passed over."""
        return "; ".join([*self.passed_over, why])
