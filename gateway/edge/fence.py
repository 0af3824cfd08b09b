"""What calls under way are marked with while policy versions change: exactly where a fence tells, assumed elsewhere."""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from gateway.core.versions import Versions
from gateway.edge.control import EngineControl
from gateway.edge.engine import Engine
from gateway.edge.gate import Gate
from gateway.edge.running import EngineCall, Running

log = structlog.get_logger()

_SILENT_S = 0.05
"""How long nothing may have come of a frozen call before it is known where it stands."""


class Fence:
    """The versions of one gateway, and the calls that they sample. Mutable: it remembers which calls it doubts."""

    def __init__(
        self,
        gate: Gate,
        running: Running,
        versions: Versions,
        control: EngineControl | None,
        sends_each_id_alone: Callable[[tuple[int, int] | None], bool],
    ) -> None:
        self._gate = gate
        self._running = running
        self._versions = versions
        self._control = control
        self._sends_each_id_alone = sends_each_id_alone
        self._doubted: set[EngineCall] = set()

    def is_frozen(self, call: EngineCall) -> bool:
        """Whether its engine stands still."""
        return self._control is not None and self._control.freezes(call.rank.engine)

    def admit(self, engine: Engine) -> None:
        """An engine answers, at first or again: other weights may be in it than were announced, until they are anew.

        A call of which nothing has come yet may have reached the one that there is now.
        """
        self._versions.admit(engine.url)
        for call in self._running:
            if call.rank.engine is engine and not call.has_begun:
                call.marks.trust(call.position)

    def forget(self, engine: Engine) -> None:
        """An engine was removed; one that comes at its URL is another."""
        self._versions.forget(engine.url)

    async def announce(self, version: str) -> None:
        """From now on it is this version that samples.

        Calls under way are marked with it where they are: exactly, if their engine is frozen, keeps no id back, and
        has sent nothing for a moment in which it was listened to.
        """
        if any(map(self.is_frozen, self._running)):
            await asyncio.sleep(2 * _SILENT_S)
        fenced = self._gate.held == "all"
        if not self._versions.announce(version, fenced=fenced):
            return
        self._doubted.clear()
        for call in self._running:
            still = self.is_frozen(call) and call.silent_s >= _SILENT_S
            exact = still and self._sends_each_id_alone(call.rank.engine.version)
            call.marks.mark(call.position, version, "fenced" if exact else "assumed")
        log.info("policy", version=version, fenced=fenced, ordinal=self._versions.ordinal, in_flight=len(self._running))

    def doubt(self, calls: Iterable[EngineCall]) -> None:
        """What these calls sample from now on may be of weights that are yet to be announced."""
        for call in calls:
            self._doubted.add(call)
            call.marks.doubt(call.position)

    def doubt_all(self) -> None:
        """So may what any call samples, until something is announced with a fence: nobody knows what was done."""
        self._versions.doubt()
        self.doubt(self._running)

    def trust(self) -> None:
        """Nothing was announced, so nothing has changed: from now on calls are marked as they were before."""
        for call in self._doubted & self._running:
            call.marks.trust(call.position)
        self._doubted.clear()
