"""The engines' own pauses: what `--engine-control` drives."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Literal

import structlog

from gateway.edge.checks import is_paused
from gateway.edge.engine import Engine
from gateway.errors import EngineNotPaused, EngineUnavailable

log = structlog.get_logger()

EngineMode = Literal["keep", "wait", "abort"]
"""What vLLM does with requests under way: freezes them, answers them to their end, ends them where they are."""
_PAUSE_S = 30.0
"""How long an engine may take over a pause that waits for nothing."""
_RESUME_S = 2.0
"""How long over a resume, which all turns wait for; one that takes longer is told again."""
_FAREWELL_S = 2.0


class EngineControl:
    """Which engines are paused by us, and how; that is its mutable state.

    Not for use from two tasks at once, but for `halt` and `admit`.
    """

    def __init__(
        self,
        engines: Callable[[], Iterable[Engine]],
        *,
        keeps_caches: Callable[[], bool] = lambda: False,
        answers: Callable[[Engine], bool] = lambda _engine: True,
    ) -> None:
        self._engines = engines
        self._answers = answers
        self._keeps_caches = keeps_caches
        self._paused: dict[Engine, EngineMode | Literal["unsure"]] = {}
        # From the moment on that one is told to pause until it has said that it goes on. Unsure is what has not
        # answered yet, or could not: it may be paused, and nothing is relied on.
        self._come: set[Engine] = set()
        # Those that were admitted since engines were last resumed: somebody before us may have paused them.
        self._posts: list[asyncio.Task[EngineNotPaused | EngineUnavailable | None]] = []

    def freezes(self, engine: Engine) -> bool:
        """Whether what the engine has under way stands still."""
        return self._paused.get(engine) == "keep"

    def governs(self, engine: Engine) -> bool:
        """Whether the engine is paused by us, for certain."""
        return self._paused.get(engine, "unsure") != "unsure"

    @property
    def is_owing(self) -> bool:
        """Whether any engine may have to be told to go on, when no pause is in force."""
        return bool(self._paused or self._come)

    def admit(self, engine: Engine) -> None:
        """An engine answers, at first or again: it may be another one, and nobody knows whether it is paused."""
        self._come.add(engine)
        if engine in self._paused:
            self._paused[engine] = "unsure"

    def admit_all(self) -> None:
        """Have every engine looked at when all are next resumed: somebody before us may have paused it."""
        self._come.update(engine for engine in self._engines() if engine not in self._paused)

    async def pause(self, mode: EngineMode, *, limit_s: float = _PAUSE_S) -> list[str] | None:
        """Pause every engine that is not yet, or is but by a mode that lets more be; warnings of those that are away.

        ``None`` if it was halted meanwhile; then some are paused, perhaps.

        Raises:
            EngineNotPaused: one refuses; then none is paused that was not before.
        """
        due = [engine for engine in self._engines() if self._falls_short(engine, mode)]
        before = {engine: self._paused[engine] for engine in due if engine in self._paused}
        path = f"/pause?mode={mode}" + ("&clear_cache=false" if self._keeps_caches() else "")
        self._paused |= dict.fromkeys(due, "unsure")
        self._posts = [
            asyncio.ensure_future(_told(engine, path, limit_s, is_away=not self._answers(engine))) for engine in due
        ]
        said = await asyncio.gather(*self._posts, return_exceptions=True)
        refused, away, halted = dict[Engine, EngineNotPaused](), [], False
        for engine, answer in zip(due, said, strict=True):
            if answer is None:
                self._paused[engine] = mode
            elif isinstance(answer, EngineNotPaused):
                refused[engine] = answer
            elif isinstance(answer, EngineUnavailable):
                away.append(f"the engine at {engine.url} is not paused, since it does not answer")
            elif isinstance(answer, asyncio.CancelledError):
                halted = True
            else:
                raise answer
        if refused:
            await self._resume([engine for engine in due if engine not in before], _RESUME_S)
            for engine in refused:
                self._paused.pop(engine, None)
            self._paused |= {engine: mode for engine, mode in before.items() if engine in refused}
            raise next(iter(refused.values()))
        return None if halted else away

    def halt(self) -> None:
        """Wait no longer for engines that are being paused."""
        for post in self._posts:
            post.cancel()

    def _falls_short(self, engine: Engine, mode: EngineMode) -> bool:
        paused = self._paused.get(engine, "unsure")
        return paused == "unsure" or (mode == "abort" != paused)

    async def resume(self, *, limit_s: float = _RESUME_S) -> list[str]:
        """Resume all that are paused, and those that came so; warnings of those that do not, which are still to be.

        Those that are no engines of ours any more are told so, too, and then forgotten.
        """
        come = [engine for engine in self._engines() if engine in self._come and engine not in self._paused]
        self._come.clear()
        warnings, seen = await asyncio.gather(
            self._resume(self._paused, limit_s), asyncio.gather(*map(is_paused, come))
        )
        strange = [engine for engine, paused in zip(come, seen, strict=True) if paused]
        for engine in strange:
            log.warning("an engine was paused, and by nobody here: it is told to go on", engine=engine.url)
        return [*warnings, *await self._resume(strange, limit_s)]

    async def thaw(self) -> list[str]:
        """Resume those whose requests are frozen, or may be, so that these come to their end."""
        return await self._resume(filter(lambda engine: self._paused[engine] in ("keep", "unsure"), self._paused))

    async def let_go(self, engine: Engine) -> None:
        """An engine was removed: leave it as it goes on."""
        self._come.discard(engine)
        await self._resume([engine] if engine in self._paused else [], _FAREWELL_S)

    async def close(self) -> None:
        """Leave no engine paused behind; soon, and as well as can be."""
        for warning in await self._resume(self._paused, _FAREWELL_S):
            log.warning("an engine may still be paused", reason=warning)

    async def _resume(self, chosen: Iterable[Engine], limit_s: float = _RESUME_S) -> list[str]:
        due = list(chosen)
        self._paused |= dict.fromkeys(due, "unsure")
        said = await asyncio.gather(*(_told(engine, "/resume", limit_s) for engine in due))
        ours, warnings = set(self._engines()), []
        for engine, answer in zip(due, said, strict=True):
            if answer is None or engine not in ours:
                self._paused.pop(engine, None)
            else:
                warnings.append(f"{answer.message}; it is told again until it does")
        return warnings


async def _told(
    engine: Engine, path: str, limit_s: float, *, is_away: bool = False
) -> EngineNotPaused | EngineUnavailable | None:
    """What came of telling an engine something: nothing, when it did so. One that is known to be away does not refuse
    by a failure: who answers for it is something before it.
    """
    verb = "resume" if path == "/resume" else "pause"
    try:
        status, _ = await engine.post(path, limit_s=limit_s)
    except EngineUnavailable as error:
        return error
    if status == 200 or (status == 404 and verb == "resume"):  # which knows no pauses, and so has none
        return None
    if status >= 500 and is_away:
        return EngineUnavailable(f"the engine at {engine.url} does not {verb}: it answered {status}")
    remedy = ": start it with VLLM_SERVER_DEV_MODE=1, or the gateway without --engine-control" if status == 404 else ""
    return EngineNotPaused(f"the engine at {engine.url} does not {verb}: it answered {status} to {path}{remedy}")
