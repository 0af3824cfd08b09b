"""One vLLM server, spoken to over HTTP."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, closing, suppress
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import aiohttp

from gateway.edge.quiet import Quiet
from gateway.errors import EngineLost, EngineProtocolError, EngineUnavailable, GatewayError
from gateway.wire.engine_error import decode_error
from gateway.wire.engine_facts import read_models, read_version
from gateway.wire.generate import RANK_HEADER
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
_MOST_BYTES = 8 * 1024 * 1024
"""Of an answer to a small GET; no list of models and no page of metrics that is in order is longer."""
_ANSWER_S = 600.0
"""How long it may take over a call that is not streamed, of which nothing is heard before its end."""


class Engine:
    """One vLLM server. Calls raise `GatewayError`s only; leaving a call early closes its socket, which stops it."""

    def __init__(self, url: str, *, key: str = "", connect_timeout_s: float = 5.0, abort_quiet_s: float = 0.0) -> None:
        base, _, ranks = url.partition("#dp=")
        self.url = base.rstrip("/")
        self.declared_ranks = int(ranks) if ranks else None
        """Data-parallel ranks behind the URL, as ``#dp=N`` at its end says."""
        self.ranks = self.declared_ranks or 1
        """Those that a turn can choose between, as far as is known."""
        self.labels: int | None = None
        """Of how many its metrics told when they were last counted."""
        self.contradicted: int | None = None
        """How many it has by its own word where that was said to contradict `declared_ranks`, once."""
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._connect_timeout_s, self._closed = connect_timeout_s, False
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self.max_model_len: int | None = None
        """Longest prompt and completion together, in tokens; ``None`` before the server has answered."""
        self.models: frozenset[str] = frozenset()
        """The names of what it serves, LoRA adapters included; empty before it has answered."""
        self.doubted = False
        """Whether a call to it broke off since it was last asked whether it is there, and has answered."""
        self._breaks = 0  # how often that was so
        self.untold = False
        """Whether it left something unsaid when it was last asked what it is, so that it is to be asked again."""
        self.quiet = Quiet(abort_quiet_s)
        """Its calls that were left, and go on for a while."""
        self.version: tuple[int, int] | None = None
        """Major and minor number of the server's vLLM; ``None`` while it does not say."""
        self._logprobs = NOT_ASKED
        self.incarnation = 0
        """How often it may have become another one, of whose logprobs nothing is known."""
        self.trouble = ""
        """Why it last did not answer."""
        self.left_out: set[str] = set()
        """Side arrays that it was asked for and did not send, so that each is told of once."""
        self.when_reconnected: Callable[[], None] = lambda: None
        """Told when a pooled connection had been closed: it may be another engine now."""
        self.reuses = 0
        """How many calls went over a connection that had been used before."""

    @property
    def is_known(self) -> bool:
        """Whether it has answered, and no call to it has broken off since."""
        return self.max_model_len is not None and not self.doubted

    def doubt(self) -> None:
        """Have it asked whether it is there, and what it is, before it gets another turn."""
        self.doubted = True
        self._breaks += 1

    @property
    def logprobs(self) -> LogprobsFinding:
        """What is known of its logprobs since it was last away."""
        return self._logprobs

    def _may_be_another(self) -> None:
        self._logprobs = NOT_ASKED
        self.incarnation += 1

    def learn(self, finding: LogprobsFinding) -> bool:
        """Take what a probe found; whether that is news. What is known is not lost to a probe that finds out less."""
        news = finding.weight >= self._logprobs.weight and finding != self._logprobs
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
        """Close the pool and every call in it, those too that nobody reads any more; there will be no other."""
        self._closed = True
        await self.quiet.close()
        for session in self._sessions.values():
            await session.close()

    async def refresh(self, limit_s: float = _REFRESH_S) -> bool:
        """Ask the server for its models, and so for the length of its context, and for its version; whether it answers.

        It is not doubted any more then, but for calls that broke off meanwhile. What was known of its logprobs is not
        any more: it may be another one. Its version is taken to be the same where it does not say it in time.
        """
        breaks = self._breaks
        there, _ = await asyncio.gather(self.is_there(limit_s), self.settle(min(limit_s, _REFRESH_S)))
        if there:
            self.doubted = self._breaks != breaks
            self._may_be_another()
        return there

    async def settle(self, limit_s: float) -> bool:
        """Ask it for its version, and so for what it can do; whether it answers in time."""
        answer = await self.told("/version", limit_s=limit_s)
        self.untold = answer is None
        self.version = self.version if answer is None else read_version(answer)
        return not self.untold

    async def is_there(self, limit_s: float) -> bool:
        """Whether it answers with its models within a time; what was doubted before is so still."""
        try:
            status, body = await self.get("/v1/models", limit_s=limit_s)
            if status != 200:
                raise decode_error(status, body)
            self.models, self.max_model_len = read_models(body)
        except GatewayError as error:
            self.trouble = error.message
        except ValueError as error:
            self.trouble = f"{self.url}{error}"
        else:
            return True
        return False

    async def told(self, path: str, *, limit_s: float) -> bytes | None:
        """The answer to a GET; empty where it has none that can be used, ``None`` where it did not come in time."""
        try:
            status, body = await self.get(path, limit_s=limit_s)
        except EngineUnavailable:
            return None
        except EngineProtocolError:
            return b""
        is_none = status >= 500 or status in (408, 429)  # to fail, or to be busy, is no answer
        return None if is_none else body if status == 200 else b""

    async def get(self, path: str, *, limit_s: float = _RELAY_S) -> tuple[int, bytes]:
        """Status and body of a small GET. One that fails says nothing against the engine.

        Raises:
            EngineUnavailable: it broke off, or took too long.
            EngineProtocolError: the answer is beyond all bounds.
        """
        async with self._call("GET", path, total_s=limit_s, doubts=False) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > _MOST_BYTES:
                    raise EngineProtocolError(f"{self.url}{path} answers with more than {_MOST_BYTES} bytes")
            return response.status, bytes(body)

    async def post(self, path: str, *, limit_s: float = _RELAY_S) -> tuple[int, bytes]:
        """Status and body of a small POST without a body."""
        async with self._call("POST", path, total_s=limit_s, doubts=False) as response:
            return response.status, await response.read()

    async def generate(
        self, body: bytes, *, request_id: str, rank: int = 0, session_id: str | None = None, doubts: bool = True
    ) -> AsyncGenerator[bytes]:
        """The event payloads of one call, as they come; `rank` is named where there are several.

        One that breaks off has the engine doubted, unless it is a question whose answer says enough by itself.

        Raises:
            GatewayError: the engine refused, failed, or cut the stream.
        """
        events = self._events(body, request_id, rank, session_id, doubts=doubts)
        first = await self.quiet.first(events) if self.quiet.quiet_s else None
        async with aclosing(events):
            if first is not None:
                yield first
            async for payload in events:
                yield payload

    async def _events(
        self, body: bytes, request_id: str, rank: int, session_id: str | None, *, doubts: bool
    ) -> AsyncGenerator[bytes]:
        async with self._generating(body, request_id, rank, session_id=session_id, doubts=doubts) as response:
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
        self,
        body: bytes,
        request_id: str,
        rank: int,
        *,
        session_id: str | None = None,
        total_s: float | None = None,
        doubts: bool = True,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = {"Content-Type": "application/json", "X-Request-Id": request_id}
        headers |= {RANK_HEADER: str(rank)} if self.ranks > 1 or rank else {}
        headers |= {"X-Session-ID": _header(session_id)} if session_id is not None else {}
        path = "/inference/v1/generate"
        return self._call("POST", path, total_s=total_s, doubts=doubts, data=body, headers=headers)

    @asynccontextmanager
    async def _call(
        self, method: str, path: str, *, total_s: float | None = None, doubts: bool, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One request; what aiohttp raises, here or while the answer is read, leaves as `EngineUnavailable`.

        After such a failure of a call that `doubts`, the server must say that it is there before it gets another turn.
        A pooled connection that the server closed meanwhile costs no call: the request goes out once more, on a fresh
        connection. A server that was started anew closes them, too, so what was known of the logprobs is not any more.
        """
        if self._closed:
            raise EngineUnavailable(f"the engine at {self.url} is none of this gateway any more")
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
                    self._may_be_another()
                    self.when_reconnected()
                response = await self._http(pooled=False).request(method, self.url + path, **options)
            self.reuses += len(reused)
            with closing(response):
                yield response
        except (aiohttp.ClientError, OSError) as error:  # timeouts are among them
            cut = isinstance(error, aiohttp.ClientPayloadError)  # whose own words speak of a status 400
            reason = "it ended before the answer did" if cut else str(error) or type(error).__name__
            lost = EngineLost(f"the engine at {self.url} dropped the call: {reason:.200}")
            if doubts:
                self.doubt()
                self.trouble = lost.message
            raise lost from error


def _header(value: str) -> str:
    """A value as a header can hold it: as it is, or percent-encoded."""
    fit = value.isascii() and value.isprintable() and value == value.strip()
    return value if fit else quote(value, safe="", errors="surrogatepass")


def _trace() -> aiohttp.TraceConfig:
    async def note(_session: object, context: SimpleNamespace, params: object) -> None:
        context.trace_request_ctx.append(params)

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(note)
    return config
