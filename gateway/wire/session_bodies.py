"""Sessions typed, as ``/openapi.json`` describes them: what a harness says of them, and what it is shown."""

from typing import Annotated, Literal

from pydantic import Field, with_config
from typing_extensions import TypedDict

from gateway.core.terms import ClientSeed, SamplingRule
from gateway.wire.sampling_body import CLOSED, Count, Positive, SamplingParams

_FullName = Annotated[str, Field(min_length=1, max_length=512)]


@with_config(CLOSED)
class Budget(TypedDict, total=False):
    """What a session may use up; `null` is no bound."""

    max_context_tokens: Positive | None
    """Prompt and completion of one answer together."""
    max_completion_tokens: Positive | None
    """Sampled tokens of all turns together."""
    max_turns: Positive | None


@with_config(CLOSED)
class SessionCreation(TypedDict, total=False):
    """A session to be made. All of it may be left out."""

    session_id: _FullName | None
    """Printable, with slashes or without; left out, the header X-Session-ID names it, else one is made."""
    group_id: _FullName | None
    """Shared by the sessions that are compared with each other."""
    rollout_id: _FullName | None
    """Shared by the sessions that together are one attempt."""
    metadata: dict[str, object] | None
    """The harness' own; at most 65,536 bytes of JSON."""
    sampling_params: SamplingParams | None
    """For what a request leaves out."""
    forced_sampling_params: SamplingParams | None
    """Win over what a request says."""
    sampling: SamplingRule | None
    client_seed: ClientSeed | None
    budget: Budget | None


@with_config(CLOSED)
class SessionFinish(TypedDict, total=False):
    """The end of a session."""

    reward: float | None
    """Left out, the reward that was given before stays."""
    metadata: dict[str, object] | None
    """Merged, key by key, with what is there."""


@with_config(CLOSED)
class SessionCreated(TypedDict):
    """Where a new session is spoken to."""

    session_id: str
    base_url: str
    """What an OpenAI client takes as its `base_url`."""


@with_config(CLOSED)
class SessionBudget(TypedDict):
    """What the session may use up, the gateway's own bounds included; `null` is no bound."""

    max_context_tokens: Positive | None
    max_completion_tokens: Positive | None
    max_turns: Positive | None


@with_config(CLOSED)
class Session(TypedDict):
    """A session at one moment."""

    session_id: str
    group_id: str | None
    rollout_id: str
    metadata: dict[str, object]
    status: Literal["open", "finished"]
    reward: float | None
    created_s: float
    """When it came to exist: seconds since 1970."""
    turns: Count
    """Complete ones."""
    aborted_turns: Count
    turns_in_flight: Count
    prompt_tokens: Count
    completion_tokens: Count
    budget: SessionBudget
    sampling_params: SamplingParams
    forced_sampling_params: SamplingParams
    sampling: SamplingRule | None
    client_seed: ClientSeed | None


@with_config(CLOSED)
class SessionsPage(TypedDict):
    """Sessions, in the order in which they came to exist."""

    data: list[Session]
    next: str | None
    """The `cursor` of the page that follows."""


@with_config(CLOSED)
class SessionsParameters(TypedDict, total=False):
    """Which sessions to list."""

    cursor: Annotated[str, Field(pattern="^[0-9]{1,15}$")]
    """The `next` of an earlier page."""
    limit: Annotated[int, Field(ge=1, le=1000)]
    """How many on a page; 100 where nothing is said."""
    group_id: str


@with_config(CLOSED)
class Acknowledgement(TypedDict):
    """What was pulled and is safe elsewhere."""

    session_ids: Annotated[list[str], Field(max_length=4096)]


@with_config(CLOSED)
class Freed(TypedDict):
    """What became of the sessions that were named."""

    freed: list[str]
    """Deleted, now or before."""
    unknown: list[str]
    open: list[str]
    """Not finished, or with a call under way: nothing happens to them."""
