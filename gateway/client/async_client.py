"""A gateway as a trainer's code sees it, for code on an event loop: what `gateway.client.client` has, awaited."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import aiohttp
from tenacity import AsyncRetrying
from yarl import URL

from gateway.client import calls, way
from gateway.client.answers import Answer, value_of
from gateway.client.calls import Call, Page
from gateway.client.errors import GatewayClientError, GatewayConnectionError
from gateway.client.naming import PauseTerms, SessionTerms, new_id
from gateway.client.pause import Pause
from gateway.client.retries import Tries, policy
from gateway.client.shapes import (
    EngineState,
    Freed,
    JsonObject,
    PauseState,
    PolicyState,
    Removed,
    Row,
    SessionState,
    Turn,
)
from gateway.client.steps import Ended, Steps, following, whole
from gateway.client.way import Way

if TYPE_CHECKING:
    from openai import AsyncOpenAI

Read = TypeVar("Read")
Value = TypeVar("Value")
Item = TypeVar("Item")


class AsyncSession:
    """One session of a gateway: what its agent needs, and what its trainer reads."""

    def __init__(self, gateway: "AsyncGatewayClient", session_id: str, base_url: str) -> None:
        self._gateway = gateway
        self.id = session_id
        self.base_url = base_url
        """What an SDK of OpenAI takes; ends in ``/v1``."""

    def openai(self, **options: Any) -> "AsyncOpenAI":  # its own
        """A ready `openai.AsyncOpenAI`, to be had without awaiting; as `Session.openai`."""
        made = {"base_url": self.base_url, "api_key": self._gateway.way.openai_key} | options
        client: AsyncOpenAI = way.openai_class("AsyncOpenAI")(**made)
        return client

    async def show(self) -> SessionState:
        """The session as it is."""
        return await self._gateway.call(calls.show_session(self.id))

    async def turns(self, *, ids: bool = False) -> list[Turn]:
        """Its turns; as `Session.turns`."""
        return await self._gateway.take(whole(lambda cursor: calls.list_turns(self.id, {"ids": ids, "cursor": cursor})))

    async def rows(self, **selection: object) -> list[Row]:
        """Its rows; as `Session.rows`."""
        return await self._gateway.take(whole(lambda cursor: calls.list_rows(self.id, selection | {"cursor": cursor})))

    async def finish(self, reward: float | None = None, metadata: JsonObject | None = None) -> SessionState:
        """Close it to agents; as `Session.finish`."""
        return await self._gateway.call(calls.finish_session(self.id, reward, metadata))

    async def delete(self) -> None:
        """Delete it for good."""
        await self._gateway.call(calls.delete_session(self.id))


class AsyncGatewayClient:
    """A client of a gateway, for one event loop; an asynchronous context manager. It does as `GatewayClient` does."""

    def __init__(
        self,
        url: str,
        admin_key: str | None = None,
        agent_key: str | None = None,
        timeout_s: float = way.TIMEOUT_S,
        *,
        patience_s: float = way.PATIENCE_S,
    ) -> None:
        self.way = Way(url.rstrip("/"), admin_key, agent_key, timeout_s, patience_s)
        self._http: aiohttp.ClientSession | None = None

    @property
    def url(self) -> str:
        """Where the gateway is."""
        return self.way.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def session(self, session_id: str | None = None, **terms: Unpack[SessionTerms]) -> AsyncSession:
        """Make a session; as `GatewayClient.session`."""
        made = await self.call(calls.create_session(self.url, session_id or new_id(), terms))
        return AsyncSession(self, made["session_id"], made["base_url"])

    def known_session(self, session_id: str) -> AsyncSession:
        """A session that somebody else made, or whose first turn will make it; asks nothing."""
        return AsyncSession(self, session_id, calls.base_url_of(self.url, session_id))

    def sessions(self, *, group_id: str | None = None) -> AsyncIterator[SessionState]:
        """The sessions, for ``async for``; as `GatewayClient.sessions`."""
        return self._items(lambda cursor: calls.list_sessions({"group_id": group_id, "cursor": cursor}))

    def rows(
        self, *, group_id: str | None = None, status: str | None = None, **selection: object
    ) -> AsyncIterator[Row]:
        """The rows of many sessions, for ``async for``; as `GatewayClient.rows`."""
        asked = {"group_id": group_id, "status": status, **selection}
        return self._items(lambda cursor: calls.list_rows(None, asked | {"cursor": cursor}))

    async def free(self, session_ids: list[str]) -> Freed:
        """Delete those of these sessions that have ended: their rows are safe elsewhere."""
        return await self.call(calls.free_sessions(session_ids))

    async def engines(self) -> list[EngineState]:
        """The engines, and how each of their ranks is."""
        return await self.call(calls.list_engines())

    async def add_engine(self, url: str) -> EngineState:
        """Have an engine more."""
        return await self.call(calls.add_engine(url))

    async def drain_engine(self, url: str, rank: int | None = None, *, back: bool = False) -> EngineState:
        """Give an engine, or one rank of it, no new turns; or give them again, with `back`."""
        return await self.call(calls.drain_engine(url, rank, back=back))

    async def remove_engine(self, url: str) -> Removed:
        """Have it no more: its calls are carried on elsewhere."""
        return await self.call(calls.remove_engine(url))

    async def policy(self) -> PolicyState:
        """The version that was announced last."""
        return await self.call(calls.show_policy())

    async def announce(self, version: str) -> PolicyState:
        """Say which policy the engines have from now on; as `GatewayClient.announce`."""
        return await self.call(calls.announce_policy(version))

    async def pauses(self) -> PauseState:
        """What is paused, by whom, and for how long yet."""
        return await self.call(calls.show_pauses())

    async def resume(self, owner: str, version: str | None = None) -> PauseState:
        """End a pause that somebody left behind; where `version` is what the engines have, say so."""
        return await self.call(calls.resume(owner, version))

    async def ready(self) -> bool:
        """Whether some rank takes turns, and new sessions are taken."""
        return await self.call(calls.is_ready())

    async def metrics(self) -> str:
        """Prometheus' text format."""
        return await self.call(calls.read_metrics())

    @asynccontextmanager
    async def paused(self, policy_version: str | None = None, **terms: Unpack[PauseTerms]) -> AsyncIterator[Pause]:
        """Hold agents while the block runs; as `GatewayClient.paused`."""
        pause = Pause(policy_version=policy_version, **terms)
        keeper = asyncio.create_task(self._keep(pause))
        try:
            try:
                await self.take(pause.begin())
                yield pause
            finally:
                keeper.cancel()
                await asyncio.wait({keeper})
        except BaseException as failure:
            await self._let_go(pause, failure)
            raise
        try:
            await self.take(pause.end(failed=False))
        except asyncio.CancelledError as interruption:
            await self._let_go(pause, interruption)
            raise
        pause.check()

    async def _let_go(self, pause: Pause, failure: BaseException) -> None:
        """Have turns go on, though nobody knows what the engines have."""
        try:
            await self.take(pause.end(failed=True))
        except GatewayClientError as further:
            failure.add_note(pause.left_behind(further))

    async def _keep(self, pause: Pause) -> None:
        while True:
            await asyncio.sleep(pause.renewal_s)
            await self.take(pause.renew())

    async def _items(self, page: Callable[[str | None], Call[Page[Item]]]) -> AsyncIterator[Item]:
        cursor = None
        while True:
            told = await self.call(page(cursor))
            for item in told["data"]:
                yield item
            cursor = told["next"]
            if cursor is None:
                return

    async def take(self, steps: Steps[Value]) -> Value:
        """Make several calls that belong together."""
        step = following(steps)
        while not isinstance(step, Ended):
            try:
                result = await self.call(step)
            except Exception as failure:  # noqa: BLE001  # the steps say what becomes of it
                step = following(steps, failure=failure)
            else:
                step = following(steps, result)
        value: Value = step.value
        return value

    async def call(self, call: Call[Read]) -> Read:
        """Make one call, as often as its policy has it."""
        tries = Tries(call)
        value: Read = await AsyncRetrying(**policy(tries, self.way.patience_s))(self._try, call, tries)
        return value

    async def _try(self, call: Call[Read], tries: Tries) -> Read:
        repeated = tries.lost
        try:
            answer = await self._answer(call)
        except GatewayConnectionError as failure:
            tries.note(failure)
            raise
        return value_of(call, answer, repeated=repeated)

    async def _answer(self, call: Call[Any]) -> Answer:
        limit_s = self.way.limit_s(call)
        limits = aiohttp.ClientTimeout(total=None, connect=min(way.CONNECT_S, limit_s), sock_read=limit_s)
        self._http = self._http or aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), middlewares=[_unrepeated]
        )
        try:
            async with self._http.request(
                call.method,
                URL(self.way.target(call), encoded=True),
                data=way.body_of(call),
                headers=self.way.headers(call),
                timeout=limits,
                allow_redirects=False,
            ) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status, headers, await response.read())
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise GatewayConnectionError(self.way.unreached(error), sent=False) from error
        except (_Broken, aiohttp.ClientError, OSError) as error:  # timeouts are among them
            raise GatewayConnectionError(self.way.unanswered(call, error), sent=True) from error


class _Broken(Exception):
    """The connection broke before an answer."""


async def _unrepeated(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating by itself what it takes for harmless: a DELETE, too. `policy` decides that."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Broken(error) from error
