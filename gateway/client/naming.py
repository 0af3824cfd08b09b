"""What sessions and pauses can be told, by name: arguments that both clients take."""

import secrets
from collections.abc import Mapping
from typing import TypedDict

from gateway.client.pause import Mode, Scope
from gateway.client.shapes import JsonObject


class SessionTerms(TypedDict, total=False):
    """What ``POST /sessions`` takes beside the id; see docs/sessions.md."""

    group_id: str | None
    rollout_id: str | None
    metadata: JsonObject | None
    sampling_params: JsonObject | None
    forced_sampling_params: JsonObject | None
    sampling: str | None
    client_seed: str | None
    budget: Mapping[str, int] | None


class PauseTerms(TypedDict, total=False):
    """How to pause; see docs/weight-sync.md."""

    mode: Mode
    """``drain`` unless given: calls under way are waited for."""
    scope: Scope
    owner: str | None
    lease_s: float
    """How long the pause outlives a program that dies; it is renewed while the block runs."""
    begin_s: float
    """How long the pause may take to be in place."""


def new_id() -> str:
    """An id that nobody has."""
    return f"s_{secrets.token_hex(12)}"
