"""Pauses at work: the gate, calls under way, engines under control, leases that end by themselves."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from gateway.core.pause import Mode, Pause, PausesInForce, impatient
from gateway.core.versions import Versions
from gateway.edge.control import EngineControl, EngineMode
from gateway.edge.engine import Engine
from gateway.edge.fence import Fence
from gateway.edge.gate import Gate
from gateway.edge.running import Running
from gateway.errors import EngineNotPaused, PauseEnded
from gateway.wire.pause import PauseAsked, ResumeAsked

log = structlog.get_logger()

_LOOK_S = 2.0
"""How often engines are told again that did not do as they were told, and clients' patience is looked at."""
_ABORT_GRACE_S = 2.0
"""How long an engine's own abort may take to end our calls before we do. One that came too late waits there."""
_ENGINE_MODES: dict[Mode, EngineMode] = {"hold": "keep", "drain": "wait", "cut": "abort"}


class Pauses:
    """The pauses of one gateway. They hold turns at the gate, which agents notice by nothing but the time it takes.

    Mutable: which are in force, and for how long turns were held; written here only.
    """

    def __init__(
        self,
        gate: Gate,
        running: Running,
        versions: Versions,
        *,
        lease_s: float,
        control: EngineControl | None = None,
        sends_each_id_alone: Callable[[tuple[int, int] | None], bool] = lambda _version: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.board = PausesInForce()
        """What was asked for; the gate may be closed for a moment longer, until engines go on."""
        self._gate = gate
        self._running = running
        self.fence = Fence(gate, running, versions, control, sends_each_id_alone)
        """What is told of each change, and is to be told of versions."""
        self._lease_s = lease_s
        self._control = control
        self._clock = clock
        self._controlling = asyncio.Lock()
        self._leased, self._owing, self._stirred = asyncio.Event(), asyncio.Event(), asyncio.Event()
        # A lease is another one; engines may have to be told something; and something has changed, each time another.
        self._closed_s: float | None = None
        self._held_before_s = 0.0
        self._impatient: list[str] = []
        running.when_changed(self._stir)
        gate.when_changed(self._stir, ended=self._stir)

    @property
    def now_s(self) -> float:
        """The time by which pauses begin and end."""
        return self._clock()

    @property
    def held_s(self) -> float:
        """For how long turns were held, over all pauses so far."""
        return self._held_before_s + (0.0 if self._closed_s is None else self._clock() - self._closed_s)

    async def pause(self, asked: PauseAsked) -> list[str]:
        """Begin or renew a pause; when it is as its mode has it: warnings.

        Whoever stops waiting leaves it in force.

        Raises:
            EngineNotPaused: an engine refuses; then all is as it was.
            PauseEnded: it was over before that.
        """
        lease_s = asked.lease_s or self._lease_s
        pause = self.board.begin(asked.owner, asked.mode, asked.scope, lease_s=lease_s, now_s=self._clock())
        self._set_gate()
        self._leased.set()
        self._owing.set()
        log.info("pause", owner=pause.owner, mode=pause.mode, scope=pause.scope, lease_s=lease_s)
        for warning in (warnings := self.warnings()):
            log.warning("a long pause", warning=warning)
        try:
            warnings += await self._enact(pause) if pause.scope == "all" else []
        except EngineNotPaused:
            self.board.refuse(pause)
            await self._release()
            raise
        if pause.mode != "hold":
            await self._quiet(pause)
        if not self._stands(pause):
            raise self._over(pause)
        self.board.settle(pause)
        return warnings

    def _stands(self, pause: Pause) -> bool:
        """Whether a pause, or its like since it was renewed, is still in force."""
        now = self.board.of(pause.owner)
        return now is not None and (now.mode, now.scope) == (pause.mode, pause.scope)

    def _over(self, pause: Pause) -> PauseEnded:
        what = f"the {pause.mode} of {pause.owner!r} ended, by its lease or by a resume, before it was in place"
        remedy = "load no weights, and ask again with a longer lease_s"
        return PauseEnded(f"{what}, with {len(self._running)} calls under way: {remedy}")

    async def _enact(self, pause: Pause) -> list[str]:
        if pause.mode != "hold":
            self._running.hurry(aborted=pause.mode == "cut" and self._control is not None)
        if pause.mode == "cut":
            self._running.interrupt("pause", of=lambda call: call.is_asked_anew)
        if pause.mode == "drain":
            await self._thaw_for_a_drain()
            await self._quiet(pause)
        warnings = await self._pause_engines(pause)
        if pause.mode == "hold" and self._stands(pause):
            self.fence.doubt(call for call in self._running if not self.fence.is_frozen(call))
        if pause.mode == "cut":
            await self._cut(pause)
        return warnings

    async def _pause_engines(self, pause: Pause) -> list[str]:
        warnings: list[str] | None = None
        while self._control and warnings is None:  # others may halt it
            async with self._controlling:
                if not self._stands(pause):
                    break
                limit = {"limit_s": max(0.01, pause.until_s - self._clock())} if pause.mode == "drain" else {}
                warnings = await self._control.pause(_ENGINE_MODES[pause.mode], **limit)
        return warnings or []

    async def _thaw_for_a_drain(self) -> None:
        """Let calls that a hold has frozen come to their end, if that hold is no more; another's goes on."""
        if self._control and self.board.modes == {"drain"} and self._running:
            self.fence.doubt(filter(self.fence.is_frozen, self._running))
            await self._tell_engines()

    async def _cut(self, pause: Pause) -> None:
        control = self._control
        self._running.interrupt("pause", of=lambda call: control is None or not control.governs(call.rank.engine))
        try:
            async with asyncio.timeout(_ABORT_GRACE_S):
                await self._quiet(pause)
        except TimeoutError:
            if self._stands(pause):
                self._running.interrupt("pause")
                await self._quiet(pause)

    async def _quiet(self, pause: Pause) -> None:
        """Wait until nothing of ours is sampled, or the pause is over."""
        while not self._is_quiet and self._stands(pause):
            await self._stirred.wait()

    @property
    def _is_quiet(self) -> bool:
        return not self._running and not self._gate.sampling

    async def resume(self, asked: ResumeAsked) -> list[str]:
        """End an owner's pause, or all, when the version that this brings is announced; warnings.

        If none is left, engines go on, those too that somebody else has paused.
        """
        if asked.version is not None:
            await self.fence.announce(asked.version)
        ended = self.board.end(asked.owner)
        for pause in ended:
            log.info("resume", owner=pause.owner, mode=pause.mode, after_s=round(self._clock() - pause.since_s, 3))
        if self._control:
            self._control.admit_all()
        return await self._release()

    async def _release(self) -> list[str]:
        """Do what is due now that fewer pauses are in force: engines go on first, then the gate opens."""
        self._stir()
        warnings = await self._tell_engines()
        self._set_gate()
        for warning in warnings:
            log.warning("an engine was not resumed", reason=warning)
        return warnings

    async def _tell_engines(self) -> list[str]:
        """Have engines go on, if nobody wants them paused, or calls there have to come to their end.

        Nothing waits for one that is still being paused: whoever wants that tells it again.
        """
        if self._control is None or not self._are_to_go_on():
            return []
        self._control.halt()
        async with self._controlling:
            if not self.board.modes:
                return await self._control.resume()
            return await self._control.thaw() if self._are_to_go_on() else []

    def _are_to_go_on(self) -> bool:
        return not self.board.modes or (self.board.modes == {"drain"} and bool(self._running))

    def admit(self, engine: Engine) -> None:
        """An engine answers, at first or again: it is to be paused as the others are, or to go on."""
        self.fence.admit(engine)
        if self._control:
            self._control.admit(engine)
            self._owing.set()

    async def let_go(self, engine: Engine) -> None:
        """An engine was removed: it is not left paused."""
        self.fence.forget(engine)
        if self._control:
            self._control.halt()
            async with self._controlling:
                await self._control.let_go(engine)

    def _set_gate(self) -> None:
        held = self.board.held
        if held == self._gate.held:
            return
        if self._gate.held == "all":
            self.fence.trust()
        if held is None:
            self._held_before_s, self._closed_s = self.held_s, None
        elif self._closed_s is None:
            self._closed_s = self._clock()
        self._gate.set(held)

    def _stir(self) -> None:
        self._stirred.set()
        self._stirred = asyncio.Event()

    def warnings(self) -> list[str]:
        """What is to be said of how long turns are held, or may be."""
        if self._gate.held and not self.board.held:
            return ["no pause is in force any more, and turns are held until engines go on"]
        return self.board.warnings()

    async def run(self) -> None:
        """End pauses whose lease has ended, and tell engines again what they did not do, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._expire_leases())
            group.create_task(self._control_engines())

    async def close(self) -> None:
        """Leave no engine paused behind."""
        if self._control:
            self._control.halt()
            async with self._controlling:
                await self._control.close()

    async def _expire_leases(self) -> None:
        while True:
            due_s = self.board.next_end_s
            await _until(self._leased, None if due_s is None else max(0.0, min(_LOOK_S, due_s - self._clock())))
            if ended := self.board.expire(self._clock()):
                await self._expired(ended)
            self._note_patience()

    async def _expired(self, ended: Sequence[Pause]) -> None:
        """Nobody resumed, and nobody knows what was done to engines meanwhile."""
        for pause in ended:
            log.warning("a lease has ended, nobody resumed", owner=pause.owner, mode=pause.mode)
        if any(pause.scope == "all" for pause in ended):
            self.fence.doubt_all()
        await self._release()

    async def _control_engines(self) -> None:
        while self._control:
            is_busy = self.board.modes or self._control.is_owing
            await _until(self._owing, _LOOK_S if is_busy else None)
            async with self._controlling:
                await self._tell_again(self._control)

    async def _tell_again(self, control: EngineControl) -> None:
        """Pause engines that have come, or come back, during a pause; resume those that did not when they were told."""
        modes = self.board.modes
        try:
            if modes and (modes != {"drain"} or self._is_quiet):
                await control.pause("keep", limit_s=_LOOK_S)
            elif not modes and control.is_owing and self._gate.held != "all":  # or it is being done
                await control.resume(limit_s=_LOOK_S)
        except EngineNotPaused as error:
            log.warning("an engine that has come was not paused", reason=error.message)

    def _note_patience(self) -> None:
        since_s = self.board.since_s
        clients = [] if since_s is None else impatient(self._clock() - since_s)
        if len(clients) > len(self._impatient):
            log.warning("turns are held for longer than clients wait that do not stream", clients=clients)
        self._impatient = clients


async def _until(event: asyncio.Event, limit_s: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await event.wait()
    event.clear()
