"""What stands before a simulated engine: it holds requests up, or answers those for tokens itself."""

import asyncio
from collections import deque

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from tests.edge.house import Application, Json


class Obstacle:
    """Before one engine; what has passed it goes on."""

    def __init__(self, app: Application) -> None:
        self.answers: deque[web.Response] = deque()
        """Those to the next calls for turns, in place of the engine's."""
        self.probe_answers: deque[web.Response] = deque()
        """Those to the next calls that probe its logprobs."""
        self.refused = 0
        self.delays_s: dict[str, float] = {}
        """How late requests come there, by their paths."""
        self._passable = asyncio.Event()
        self._passable.set()
        app.middlewares.append(self._pass)

    def freeze(self) -> None:
        """Answer nothing any more, as a process that was stopped."""
        self._passable.clear()

    def thaw(self) -> None:
        """Go on."""
        self._passable.set()

    @web.middleware
    async def _pass(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        await self._passable.wait()
        await asyncio.sleep(self.delays_s.get(request.path, 0.0))
        is_probe = request.headers.get("X-Request-Id", "").startswith("probe-")
        if request.path == "/inference/v1/generate" and self.answers and not is_probe:
            self.refused += 1
            await request.read()
            return self.answers.popleft()
        if is_probe and self.probe_answers and (await request.json())["sampling_params"].get("logprobs"):
            return self.probe_answers.popleft()
        return await handler(request)


def refusal(status: int) -> web.Response:
    """An error of an engine's."""
    error = {"message": "not like this", "type": "BadRequestError", "param": None, "code": status}
    return web.json_response({"error": error}, status=status)


def events(*choices: Json) -> web.Response:
    """A stream of these choices."""
    lines = [orjson.dumps({"choices": [choice]}) for choice in choices]
    body = b"".join(b"data: " + line + b"\n\n" for line in [*lines, b"[DONE]"])
    return web.Response(body=body, content_type="text/event-stream")
