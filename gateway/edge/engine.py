"""One vLLM server, spoken to over HTTP."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from types import SimpleNamespace
from typing import Any

import aiohttp
import orjson

from gateway.errors import EngineProtocolError, EngineUnavailable, GatewayError
from gateway.wire.engine_error import decode_error
from gateway.wire.probe import NOT_ASKED, LogprobsFinding
from gateway.wire.sse import DONE, SSEDecoder

_KEEP_ALIVE_S = 4.0
"""uvicorn closes idle connections after 5 s; we let go first."""
_REFRESH_S = 1.0
"""How long a server may take to say that it is there; it is asked again soon."""
_END_GRACE_S = 0.2
"""How long the end of a stream is waited for after its last event."""
_RELAY_S = 30.0
"""How long it may take to answer a client's question."""
_ANSWER_S = 600.0
"""How long it may take over a call that is not streamed, of which nothing is heard before its end."""


class Engine:
    """One vLLM server. Calls raise `GatewayError`s only; leaving a call early closes its socket, which stops it."""

    def __init__(self, url: str, *, key: str = "", connect_timeout_s: float = 5.0) -> None:
        base, _, ranks = url.partition("#dp=")
        self.url = base.rstrip("/")
        self.ranks = int(ranks or 1)
        """Data-parallel ranks behind the URL, as ``#dp=N`` at its end says."""
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._connect_timeout_s = connect_timeout_s
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self.max_model_len: int | None = None
        """Longest prompt and completion together, in tokens; ``None`` while the server does not answer."""
        self.version: tuple[int, int] | None = None
        """Major and minor number of the server's vLLM; ``None`` while it does not say."""
        self._logprobs = NOT_ASKED
        self.trouble = ""
        """Why it last did not answer."""
        self.left_out: set[str] = set()
        """Side arrays that it was asked for and did not send, so that each is told of once."""
        self.when_reconnected: Callable[[], None] = lambda: None
        """Told when a pooled connection had been closed: it may be another engine now."""
        self.reuses = 0
        """How many calls went over a connection that had been used before."""

    @property
    def logprobs(self) -> LogprobsFinding:
        """What is known of its logprobs since it was last away."""
        return self._logprobs

    def learn(self, finding: LogprobsFinding) -> bool:
        """Take what a probe found; whether that is news. What is known is not lost to a probe that finds out less."""
        less = _weight(finding) < _weight(self._logprobs)
        news = not less and finding != self._logprobs
        self._logprobs = finding if news else self._logprobs
        return news

    def _http(self, *, pooled: bool) -> aiohttp.ClientSession:
        if pooled not in self._sessions:
            # No limit: how many turns an engine gets is not for the connector to decide.
            keep = {"keepalive_timeout": _KEEP_ALIVE_S} if pooled else {"force_close": True}
            tcp = aiohttp.TCPConnector(limit=0, **keep)
            jar, traces = aiohttp.DummyCookieJar(), [_trace()]
            self._sessions[pooled] = aiohttp.ClientSession(
                connector=tcp, headers=self._headers, cookie_jar=jar, trace_configs=traces
            )
        return self._sessions[pooled]

    async def close(self) -> None:
        """Close the pool and every call in it."""
        for session in self._sessions.values():
            await session.close()

    async def refresh(self) -> None:
        """Ask the server for its models, and so for the length of its context, and for its version.

        What was known of its logprobs is not any more: it may be another one.
        """
        try:
            status, body = await self.get("/v1/models", limit_s=_REFRESH_S)
            if status != 200:
                raise decode_error(status, body)
            lengths = [model.get("max_model_len") for model in orjson.loads(body)["data"]]
            shortest = min(length for length in lengths if type(length) is int and length > 0)
            self.version = await self._ask_version()
            self._logprobs = NOT_ASKED
            self.max_model_len = shortest
        except GatewayError as error:
            self.trouble = error.message
        except (LookupError, TypeError, ValueError, AttributeError):  # of them is orjson's
            self.trouble = f"{self.url}/v1/models does not say max_model_len: is this a vLLM?"

    async def _ask_version(self) -> tuple[int, int] | None:
        with suppress(EngineUnavailable, LookupError, TypeError, ValueError):
            _, body = await self.get("/version", limit_s=_REFRESH_S)
            if number := re.match(r"(\d+)\.(\d+)", orjson.loads(body)["version"]):
                return int(number[1]), int(number[2])
        return None

    async def get(self, path: str, *, limit_s: float = _RELAY_S) -> tuple[int, bytes]:
        """Status and body of a small GET."""
        async with self._call("GET", path, total_s=limit_s) as response:
            return response.status, await response.read()

    async def generate(self, body: bytes, *, request_id: str, rank: int = 0) -> AsyncGenerator[bytes]:
        """The event payloads of one call, as they come; `rank` is named where there are several.

        Raises:
            GatewayError: the engine refused, failed, or cut the stream.
        """
        async with self._generating(body, request_id, rank) as response:
            if response.status != 200:
                raise decode_error(response.status, await response.read())
            if response.content_type != "text/event-stream":
                raise EngineProtocolError(f"the engine answered a stream with {response.content_type}")
            decoder = SSEDecoder()
            async for chunk in response.content.iter_any():
                for payload in decoder.feed(chunk):
                    yield payload
                    if payload == DONE:
                        # A connection that is read to its end goes back to the pool; the answer is whole either way.
                        with suppress(aiohttp.ClientError, TimeoutError):
                            async with asyncio.timeout(_END_GRACE_S):
                                await response.content.read()
                        return

    async def ask(self, body: bytes, *, request_id: str, rank: int = 0) -> bytes:
        """The answer to a call that is not streamed.

        Raises:
            GatewayError: as `generate`; or there was no answer for ten minutes.
        """
        async with self._generating(body, request_id, rank, total_s=_ANSWER_S) as response:
            answer = await response.read()
            if response.status != 200:
                raise decode_error(response.status, answer)
            return answer

    def _generating(
        self, body: bytes, request_id: str, rank: int, *, total_s: float | None = None
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = {"Content-Type": "application/json", "X-Request-Id": request_id}
        headers |= {"X-data-parallel-rank": str(rank)} if self.ranks > 1 or rank else {}
        return self._call("POST", "/inference/v1/generate", total_s=total_s, data=body, headers=headers)

    @asynccontextmanager
    async def _call(
        self, method: str, path: str, *, total_s: float | None = None, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One request; what aiohttp raises, here or while the answer is read, leaves as `EngineUnavailable`.

        After such a failure the server must say that it is there before it gets another turn. A pooled connection
        that the server closed meanwhile costs no call: the request goes out once more, on a fresh connection. What
        was known of the logprobs is not any more, since a server that was started anew closes them, too.
        """
        reused: list[object] = []
        limits = aiohttp.ClientTimeout(total=total_s, sock_connect=self._connect_timeout_s)
        options |= {"timeout": limits, "trace_request_ctx": reused}
        try:
            try:
                response = await self._http(pooled=True).request(method, self.url + path, **options)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not reused:
                    raise
                if self._logprobs.answered:
                    self._logprobs = NOT_ASKED
                    self.when_reconnected()
                response = await self._http(pooled=False).request(method, self.url + path, **options)
            self.reuses += len(reused)
            with closing(response):
                yield response
        except (aiohttp.ClientError, OSError) as error:  # timeouts are among them
            self.max_model_len = None
            cut = isinstance(error, aiohttp.ClientPayloadError)  # whose own words speak of a status 400
            reason = "it ended before the answer did" if cut else str(error) or type(error).__name__
            raise EngineUnavailable(f"the engine at {self.url} dropped the call: {reason:.200}") from error


def _weight(finding: LogprobsFinding) -> tuple[bool, bool]:
    return finding.mode != "unknown", finding.answered


def _trace() -> aiohttp.TraceConfig:
    async def note(_session: object, context: SimpleNamespace, params: object) -> None:
        context.trace_request_ctx.append(params)

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(note)
    return config
