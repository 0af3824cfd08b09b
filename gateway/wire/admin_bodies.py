"""What an operator and a trainer around a weight sync say and are told, typed, as ``/openapi.json`` describes it."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field, JsonValue, with_config
from typing_extensions import TypedDict

from gateway.core.health import HealthState
from gateway.core.pause import Mode, Scope
from gateway.core.sampling import LogprobsMode
from gateway.core.types import MAX_VERSION_CHARS, UNKNOWN_VERSION
from gateway.wire.sampling_body import CLOSED, OPEN, Count, Positive, TokenId

_NOT_UNKNOWN: dict[str, JsonValue] = {"not": {"const": UNKNOWN_VERSION}}
_Version = Annotated[
    str, Field(min_length=1, max_length=MAX_VERSION_CHARS, pattern="^[ -~]+$", json_schema_extra=_NOT_UNKNOWN)
]
_Owner = Annotated[str, Field(min_length=1, max_length=256)]
_Lease = Annotated[float, Field(ge=0.001, le=86_400)]
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_PORT = "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}"
_SERVER = rf"https?://{_LABEL}(\.{_LABEL})*(:({_PORT}))?(/[A-Za-z0-9._~/-]*)?"
_EngineUrl = Annotated[str, Field(max_length=2048, pattern=f"^{_SERVER}(#dp=[1-9][0-9]?)?$")]


@with_config(CLOSED)
class Health(TypedDict):
    """The process lives."""

    status: Literal["ok"]


@with_config(CLOSED)
class Readiness(TypedDict):
    """Whether turns are taken, and why not."""

    status: str
    """`ready`, or what is wrong."""


@with_config(OPEN)
class Model(TypedDict):
    """A model, as its engine shows it."""

    id: str


@with_config(OPEN)
class Models(TypedDict):
    """What the engines serve."""

    object: Literal["list"]
    data: list[Model]


@with_config(CLOSED)
class PauseBody(TypedDict):
    """A pause, begun or renewed."""

    mode: Mode
    """`hold` lets what runs go on, `drain` waits for it, `cut` ends it, to be carried on."""
    scope: NotRequired[Scope | None]
    """`new_sessions` goes with `hold` only."""
    owner: NotRequired[_Owner | None]
    lease_s: NotRequired[_Lease | None]
    """How long it lasts unless it is renewed."""


@with_config(CLOSED)
class ResumeBody(TypedDict, total=False):
    """The end of one owner's pause, or of all."""

    owner: _Owner | None
    version: _Version | None
    """The policy that is in the engines now."""


@with_config(CLOSED)
class PolicyBody(TypedDict):
    """Another policy, which is in the engines from now on."""

    version: _Version
    """Not `unknown`, which is what nobody has announced."""


@with_config(CLOSED)
class Policy(TypedDict):
    """The policy that was announced last."""

    version: str | None
    ordinal: Count
    """Its place in the order of announcements."""
    source: Literal["fenced", "assumed"] | None
    """Whether it was announced while everything was paused."""


@with_config(CLOSED)
class OwnersPause(TypedDict):
    """The pause of one owner."""

    owner: str
    mode: Mode
    scope: Scope
    for_s: float
    lease_left_s: float


@with_config(CLOSED)
class Paused(TypedDict):
    """All pauses together."""

    mode: Mode
    scope: Scope
    lease_left_s: float
    owners: list[OwnersPause]


@with_config(CLOSED)
class Pauses(TypedDict):
    """What is in force."""

    paused: Paused | None
    in_flight: Count
    """Calls that engines answer."""
    waiting: Count
    """Turns that wait for an engine."""
    warnings: list[str]


@with_config(CLOSED)
class Draining(TypedDict):
    """The gateway ends when no call is in flight."""

    draining: Literal[True]
    in_flight: Count


@with_config({**CLOSED, "json_schema_extra": {"dependentRequired": {"rank": ["draining"]}}})
class EngineBody(TypedDict):
    """An engine to be added, or with `draining`, to be given no new turns or taken back."""

    url: _EngineUrl
    """`http://host:port`, with `#dp=N` for N data-parallel ranks."""
    draining: NotRequired[bool | None]
    rank: NotRequired[Count | None]
    """One rank of it, instead of all; goes with `draining`."""


@with_config(CLOSED)
class EngineName(TypedDict):
    """An engine; `?url=` may say it instead."""

    url: _EngineUrl


@with_config(CLOSED)
class EngineParameters(TypedDict, total=False):
    """Which engine, where no body says it."""

    url: str


@with_config(CLOSED)
class Rank(TypedDict):
    """A data-parallel rank."""

    rank: Count
    health: HealthState
    failures: Count
    """Turns that failed in a row."""
    draining: bool
    in_flight: Count
    waiting: Count
    sessions: Count
    resident_tokens: Count
    """What its sessions take up in its KV cache, idle ones too."""
    capacity_tokens: Count | None
    running: Count | None
    """By the engine's own word, as `queued` and `kv_usage`."""
    queued: Count | None
    kv_usage: float | None


@with_config(CLOSED)
class Engine(TypedDict):
    """An engine."""

    url: str
    answers: bool
    trouble: str | None
    """Why it does not."""
    version: str | None
    models: list[str]
    window: Positive | None
    """Longest prompt and completion together, in tokens."""
    logprobs: LogprobsMode
    ranks: list[Rank]


@with_config(CLOSED)
class Engines(TypedDict):
    """All of them, on one page."""

    data: list[Engine]
    next: None


@with_config(CLOSED)
class EngineRemoved(TypedDict):
    """An engine less."""

    url: str
    removed: Literal[True]
    interrupted: Count
    """Calls that are carried on elsewhere."""


@with_config(CLOSED)
class ScoreBody(TypedDict):
    """A row to be scored."""

    token_ids: Annotated[list[TokenId], Field(min_length=1)]
    model: NotRequired[Annotated[str, Field(min_length=1)] | None]


@with_config(CLOSED)
class Scores(TypedDict):
    """What one rank makes of a row."""

    logprobs: list[Annotated[float, Field(le=0)] | None]
    """Natural-log probabilities of the ids; 0.0 for the first, `null` for a last one that cannot be told."""
    engine: str
    rank: Count
    policy_versions: NotRequired[list[str]]
    """Those that the engine names."""


@with_config(CLOSED)
class ErrorFields(TypedDict):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    """The field at fault."""
    code: str
    """For programs, such as `context_length_exceeded`."""


@with_config(CLOSED)
class ErrorBody(TypedDict):
    """Every error, in OpenAI's shape."""

    error: ErrorFields
