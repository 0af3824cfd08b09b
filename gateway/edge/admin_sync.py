"""What a trainer does around a weight sync, and an operator at the end: pauses, policy versions, the drain."""

from aiohttp import web

from gateway.edge.body import body_of, json_answer
from gateway.edge.deps import Deps
from gateway.edge.drain import Draining
from gateway.edge.metrics import Metrics
from gateway.edge.pause import Pauses
from gateway.edge.tasks import WaitedTasks
from gateway.wire import pause as wire


class AdminSync:
    """The handlers, and what they share. What a caller has begun goes on when it hangs up."""

    def __init__(self, pauses: Pauses, draining: Draining, deps: Deps) -> None:
        self.pauses = pauses
        self.draining = draining
        self._versions = deps.versions
        self._running = deps.running
        self._backends = deps.backends
        self._tasks = WaitedTasks()
        self._closing = False

    def show(self, metrics: Metrics) -> None:
        """Have these metrics tell of it."""
        gate, running, versions = self._backends.gate, self._running, self._versions
        metrics.show_pauses(lambda: gate.held, lambda: self.pauses.held_s, lambda: self._backends.waiting)
        metrics.show_policy(lambda: versions.ordinal, lambda: [call.marks.staleness() for call in running])

    async def close(self) -> None:
        """Wait for nothing any more."""
        self._closing = True
        await self._tasks.drain()

    def routes(self) -> list[web.RouteDef]:
        """Every route."""
        return [
            web.get("/admin/pause", self.paused),
            web.post("/admin/pause", self.pause),
            web.post("/admin/resume", self.resume),
            web.get("/admin/policy", self.policy),
            web.post("/admin/policy", self.announce),
            web.post("/admin/drain", self.drain),
        ]

    async def paused(self, _request: web.Request) -> web.Response:
        """What is in force."""
        return self._state(self.pauses.warnings())

    async def pause(self, request: web.Request) -> web.Response:
        """A pause, begun or renewed, when it is as its mode has it."""
        asked = wire.decode_pause(await body_of(request))
        pausing = self._tasks.start(self.pauses.pause(asked), may_cancel=lambda: self._closing)
        return self._state(await pausing.wait())

    async def resume(self, request: web.Request) -> web.Response:
        """The end of a pause, or of all, perhaps with another policy."""
        asked = wire.decode_resume(await body_of(request))
        resuming = self._tasks.start(self.pauses.resume(asked), may_cancel=lambda: self._closing)
        return self._state(await resuming.wait())

    async def policy(self, _request: web.Request) -> web.Response:
        """The version that was announced last."""
        return json_answer(wire.encode_policy(self._versions.current))

    async def announce(self, request: web.Request) -> web.Response:
        """Another version, from now on."""
        await self.pauses.fence.announce(wire.decode_policy(await body_of(request)))
        return json_answer(wire.encode_policy(self._versions.current))

    async def drain(self, _request: web.Request) -> web.Response:
        """The beginning of the end: as SIGTERM."""
        self.draining.begin()
        return json_answer(wire.encode_draining(self.draining.in_flight))

    def _state(self, warnings: list[str]) -> web.Response:
        return json_answer(
            wire.encode_pauses(
                self.pauses.board,
                self.pauses.now_s,
                in_flight=len(self._running),
                waiting=self._backends.waiting,
                warnings=warnings,
            )
        )
