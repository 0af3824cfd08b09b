"""What the gateway answers, as types: the objects of its JSON. docs/rows.md and docs/sessions.md say what they mean."""

from typing import Any, NotRequired, TypedDict

JsonObject = dict[str, Any]


class Created(TypedDict):
    """A new session."""

    session_id: str
    base_url: str


class SessionState(TypedDict):
    """A session at one moment."""

    session_id: str
    group_id: str | None
    rollout_id: str
    metadata: JsonObject
    status: str
    reward: float | None
    created_s: float
    turns: int
    aborted_turns: int
    turns_in_flight: int
    prompt_tokens: int
    completion_tokens: int
    budget: JsonObject
    sampling_params: JsonObject
    forced_sampling_params: JsonObject
    sampling: str | None
    client_seed: str | None


Turn = dict[str, Any]
"""A turn, as docs/sessions.md has it: ``turn_id``, ``parent_id``, ``status``, ``how``, ``reason`` and more."""


class Row(TypedDict):
    """A row; `token_ids`, `loss_mask` and `logprobs` are of one length."""

    session_id: str
    group_id: str | None
    rollout_id: str
    row_id: str
    row_index: int
    n_rows: int
    rollout_trainable_tokens: int
    parent_row_id: str | None
    reward: float | None
    metadata: JsonObject
    tags: JsonObject
    model: str | None
    tools: list[JsonObject]
    messages: list[JsonObject]
    token_ids: list[int]
    loss_mask: list[int]
    logprobs: list[float]
    loss_weights: NotRequired[list[float]]
    policy_versions: list[JsonObject]
    side_arrays: JsonObject
    ended_by: str
    truncated: bool
    thinking_retention: str
    turns: list[Turn]
    certificate: JsonObject


class RankState(TypedDict):
    """One rank of an engine."""

    rank: int
    health: str
    failures: int
    draining: bool
    in_flight: int
    waiting: int
    sessions: int
    resident_tokens: int
    capacity_tokens: int | None
    running: int | None
    queued: int | None
    kv_usage: float | None


class EngineState(TypedDict):
    """One engine."""

    url: str
    answers: bool
    trouble: str | None
    version: str | None
    models: list[str]
    window: int | None
    logprobs: str
    ranks: list[RankState]


class Removed(TypedDict):
    """An engine that is none of the gateway's any more."""

    url: str
    removed: bool
    interrupted: int


class PolicyState(TypedDict):
    """The version that was announced last."""

    version: str | None
    ordinal: int
    source: str | None


class PauseState(TypedDict):
    """What is paused, and what goes on."""

    paused: JsonObject | None
    in_flight: int
    waiting: int
    warnings: list[str]


class Freed(TypedDict):
    """What became of sessions that were said to be safe elsewhere."""

    freed: list[str]
    unknown: list[str]
    open: list[str]
