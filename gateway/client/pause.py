"""A pause that lasts as long as a block of code: begun, held alive, looked after, ended."""

import os
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any, Literal

from gateway.client import calls
from gateway.client.calls import Call
from gateway.client.errors import GatewayCallError, GatewayClientError, GatewayConnectionError, PauseLost
from gateway.client.shapes import PauseState
from gateway.client.steps import Steps

Mode = Literal["hold", "drain", "cut"]
Scope = Literal["all", "new_sessions"]

LEASE_S = 120.0
BEGIN_S = 3600.0
_RENEWALS = 4
"""How often a lease is renewed before it would end."""
_LONGEST_RENEWAL_S = 5.0
"""How long the answer to a renewal is waited for: one that comes amid a drain answers when that is done."""
_SLACK_S = 0.05
"""By how much the gateway's clock and ours may differ over a renewal."""
_AT_ONCE_S = 0.001
_LOOKS = 200
"""How often to look whether a lease that ends at once has ended."""


class Pause:
    """A pause in force. Mutable: whether it was lost."""

    def __init__(
        self,
        *,
        policy_version: str | None = None,
        mode: Mode = "drain",
        scope: Scope = "all",
        owner: str | None = None,
        lease_s: float = LEASE_S,
        begin_s: float = BEGIN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.owner = owner or f"{socket.gethostname()[:64]}-{os.getpid()}-{secrets.token_hex(4)}"
        """Whose it is: by default nobody else's, so that no other pause is taken for it."""
        self.policy_version = policy_version
        """What is announced when the block ends well; may be set in the block."""
        self.warnings: list[str] = []
        """What the gateway said when the pause began: of clients that will not wait so long, of engines."""
        self.lost: str | None = None
        """Why it cannot be relied upon any more; ``None`` while it can."""
        self._mode, self._scope = mode, scope
        self._lease_s, self._begin_s = lease_s, begin_s
        self._clock = clock
        self._begun_s: float | None = None

    @property
    def renewal_s(self) -> float:
        """How often to renew it."""
        return self._lease_s / _RENEWALS

    def check(self) -> None:
        """Go on only while it holds.

        Raises:
            PauseLost: it does not.
        """
        if self.lost is not None:
            what = (
                f"the pause of {self.owner!r} was over before its block was: {self.lost}; turns may have run meanwhile"
            )
            raise PauseLost(f"{what}. Take a longer lease_s, and an owner that nobody else resumes")

    def left_behind(self, failure: GatewayClientError) -> str:
        """What to say when it could not be ended."""
        return f"the pause of {self.owner!r} could not be ended, so its lease of {self._lease_s:g} s ends it: {failure}"

    def begin(self) -> Steps[None]:
        """It is as its mode has it."""
        told: PauseState = yield self._call(self._lease_s, timeout_s=self._begin_s)
        self._begun_s, self.warnings = self._clock(), told["warnings"]

    def renew(self) -> Steps[None]:
        """Its lease is whole again; or it is noted that it was lost."""
        sent_s = self._clock()
        patience_s = min(self.renewal_s, _LONGEST_RENEWAL_S)
        try:
            told = yield self._call(self._lease_s, timeout_s=patience_s, once=True)
        except GatewayConnectionError:
            return  # amid a drain it was renewed all the same; else the next renewal, or the end, finds out
        except GatewayCallError as error:
            self._lose(f"to renew it was refused: {error}")
        else:
            self._look(told, sent_s)

    def end(self, *, failed: bool) -> Steps[None]:
        """Turns go on. What the engines have is announced, unless the block `failed`: then nobody knows it.

        A failed one ends by its lease, so that the gateway marks what is sampled from then on as `assumed`.
        """
        if failed or self._begun_s is None:
            if self._begun_s is not None:
                yield from self._lapse()
            yield calls.resume(self.owner, None)
            return
        sent_s = self._clock()
        self._look((yield calls.show_pauses()), sent_s)
        yield calls.resume(self.owner, self.policy_version)

    def _lapse(self) -> Steps[None]:
        try:
            yield self._call(_AT_ONCE_S, timeout_s=_LONGEST_RENEWAL_S, once=True)
            for _ in range(_LOOKS):
                if self._held_s((yield calls.show_pauses())) is None:
                    return
        except GatewayClientError:
            return  # over already, or out of reach: what follows tells

    def _call(self, lease_s: float, *, timeout_s: float, once: bool = False) -> Call[PauseState]:
        body = {"mode": self._mode, "scope": self._scope, "owner": self.owner, "lease_s": lease_s}
        return Call("POST", "/admin/pause", body=body, timeout_s=timeout_s, once=once)

    def _look(self, told: PauseState, sent_s: float) -> None:
        """Whether it is still the pause that was begun: one that was over is begun anew by its renewal."""
        if self._begun_s is None:
            return
        held_s = self._held_s(told)
        if held_s is None:
            self._lose("its lease had ended, or somebody had resumed")
        elif held_s + _SLACK_S < sent_s - self._begun_s:
            self._lose("its lease had ended, or somebody had resumed, before it was renewed")

    def _lose(self, why: str) -> None:
        self.lost = self.lost or why

    def _held_s(self, told: PauseState) -> float | None:
        owners: list[dict[str, Any]] = (told["paused"] or {}).get("owners", [])
        return next((pause["for_s"] for pause in owners if pause["owner"] == self.owner), None)
