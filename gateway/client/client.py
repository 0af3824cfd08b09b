"""A gateway as a trainer's code sees it, for code that waits."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import urllib3
from tenacity import Retrying
from urllib3 import exceptions

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
    from openai import OpenAI

Read = TypeVar("Read")
Value = TypeVar("Value")
Item = TypeVar("Item")

_POOLED = 32


class Session:
    """One session of a gateway: what its agent needs, and what its trainer reads."""

    def __init__(self, gateway: "GatewayClient", session_id: str, base_url: str) -> None:
        self._gateway = gateway
        self.id = session_id
        self.base_url = base_url
        """What an SDK of OpenAI takes; ends in ``/v1``."""

    def openai(self, **options: Any) -> "OpenAI":  # its own
        """A ready `openai.OpenAI`, also as a context manager. `options` are its own, as ``timeout``.

        It shows the agent's key; where the client was given none, the admin's.

        Raises:
            PackageMissing: the package is not installed.
        """
        made = {"base_url": self.base_url, "api_key": self._gateway.way.openai_key} | options
        client: OpenAI = way.openai_class("OpenAI")(**made)
        return client

    def show(self) -> SessionState:
        """The session as it is."""
        return self._gateway.call(calls.show_session(self.id))

    def turns(self, *, ids: bool = False) -> list[Turn]:
        """Its turns, oldest first; with `ids` each has ``prompt_ids``, ``completion_ids`` and ``logprobs``."""
        return self._gateway.take(whole(lambda cursor: calls.list_turns(self.id, {"ids": ids, "cursor": cursor})))

    def rows(self, **selection: object) -> list[Row]:
        """Its rows, all at once; `selection` as in docs/rows.md, as ``shared="split"``."""
        return self._gateway.take(whole(lambda cursor: calls.list_rows(self.id, selection | {"cursor": cursor})))

    def finish(self, reward: float | None = None, metadata: JsonObject | None = None) -> SessionState:
        """Close it to agents; may be repeated to change the reward, and `metadata` are added to what it has."""
        return self._gateway.call(calls.finish_session(self.id, reward, metadata))

    def delete(self) -> None:
        """Delete it for good."""
        self._gateway.call(calls.delete_session(self.id))


class GatewayClient:
    """A client of a gateway; a context manager, and safe to share among threads, and with processes that are forked.

    Each method raises `GatewayCallError` where the gateway refuses and `GatewayConnectionError` where it does not
    answer. Before that, calls that were not carried out are tried again for `patience_s` seconds: where nothing
    listened, and where the answer was 429 or 503. What may have been carried out is repeated only where that does
    no harm.
    """

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
        self._pool, self._process = _pool(), os.getpid()

    @property
    def url(self) -> str:
        """Where the gateway is."""
        return self.way.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._pool.clear()

    def session(self, session_id: str | None = None, **terms: Unpack[SessionTerms]) -> Session:
        """Make a session; without an id it gets one.

        Raises:
            GatewayCallError: among others, ``session_exists``.
        """
        made = self.call(calls.create_session(self.url, session_id or new_id(), terms))
        return Session(self, made["session_id"], made["base_url"])

    def known_session(self, session_id: str) -> Session:
        """A session that somebody else made, or whose first turn will make it; asks nothing."""
        return Session(self, session_id, calls.base_url_of(self.url, session_id))

    def sessions(self, *, group_id: str | None = None) -> Iterator[SessionState]:
        """The sessions, in the order in which they came to exist, page by page."""
        return self._items(lambda cursor: calls.list_sessions({"group_id": group_id, "cursor": cursor}))

    def rows(self, *, group_id: str | None = None, status: str | None = None, **selection: object) -> Iterator[Row]:
        """The rows of many sessions, page by page; `status` and `selection` as in docs/rows.md."""
        asked = {"group_id": group_id, "status": status, **selection}
        return self._items(lambda cursor: calls.list_rows(None, asked | {"cursor": cursor}))

    def free(self, session_ids: list[str]) -> Freed:
        """Delete those of these sessions that have ended: their rows are safe elsewhere."""
        return self.call(calls.free_sessions(session_ids))

    def engines(self) -> list[EngineState]:
        """The engines, and how each of their ranks is."""
        return self.call(calls.list_engines())

    def add_engine(self, url: str) -> EngineState:
        """Have an engine more."""
        return self.call(calls.add_engine(url))

    def drain_engine(self, url: str, rank: int | None = None, *, back: bool = False) -> EngineState:
        """Give an engine, or one rank of it, no new turns; or give them again, with `back`."""
        return self.call(calls.drain_engine(url, rank, back=back))

    def remove_engine(self, url: str) -> Removed:
        """Have it no more: its calls are carried on elsewhere."""
        return self.call(calls.remove_engine(url))

    def policy(self) -> PolicyState:
        """The version that was announced last."""
        return self.call(calls.show_policy())

    def announce(self, version: str) -> PolicyState:
        """Say which policy the engines have from now on; within a pause, where nothing is to be `assumed`."""
        return self.call(calls.announce_policy(version))

    def pauses(self) -> PauseState:
        """What is paused, by whom, and for how long yet."""
        return self.call(calls.show_pauses())

    def resume(self, owner: str, version: str | None = None) -> PauseState:
        """End a pause that somebody left behind; where `version` is what the engines have, say so."""
        return self.call(calls.resume(owner, version))

    def ready(self) -> bool:
        """Whether some rank takes turns, and new sessions are taken."""
        return self.call(calls.is_ready())

    def metrics(self) -> str:
        """Prometheus' text format."""
        return self.call(calls.read_metrics())

    @contextmanager
    def paused(self, policy_version: str | None = None, **terms: Unpack[PauseTerms]) -> Iterator[Pause]:
        """Hold agents while the block runs; docs/client.md says how.

        A block that ends well announces `policy_version`. One that raises announces nothing; turns go on either way.

        Raises:
            PauseLost: the block ended well, but the pause was over before.
            GatewayCallError: it could not be begun.
        """
        pause = Pause(policy_version=policy_version, **terms)
        over = threading.Event()
        keeper = threading.Thread(target=self._keep, args=(pause, over), name="pause", daemon=True)
        keeper.start()
        try:
            try:
                self.take(pause.begin())
                yield pause
            finally:
                over.set()
                keeper.join()
        except BaseException as failure:
            self._let_go(pause, failure)
            raise
        try:
            self.take(pause.end(failed=False))
        except (KeyboardInterrupt, SystemExit) as interruption:
            self._let_go(pause, interruption)
            raise
        pause.check()

    def _let_go(self, pause: Pause, failure: BaseException) -> None:
        """Have turns go on, though nobody knows what the engines have."""
        try:
            self.take(pause.end(failed=True))
        except GatewayClientError as further:
            failure.add_note(pause.left_behind(further))

    def _keep(self, pause: Pause, over: threading.Event) -> None:
        while not over.wait(pause.renewal_s):
            self.take(pause.renew())

    def _items(self, page: Callable[[str | None], Call[Page[Item]]]) -> Iterator[Item]:
        cursor = None
        while True:
            told = self.call(page(cursor))
            yield from told["data"]
            cursor = told["next"]
            if cursor is None:
                return

    def take(self, steps: Steps[Value]) -> Value:
        """Make several calls that belong together."""
        step = following(steps)
        while not isinstance(step, Ended):
            try:
                result = self.call(step)
            except Exception as failure:  # noqa: BLE001  # the steps say what becomes of it
                step = following(steps, failure=failure)
            else:
                step = following(steps, result)
        value: Value = step.value
        return value

    def call(self, call: Call[Read]) -> Read:
        """Make one call, as often as its policy has it."""
        tries = Tries(call)
        value: Read = Retrying(**policy(tries, self.way.patience_s))(self._try, call, tries)
        return value

    def _try(self, call: Call[Read], tries: Tries) -> Read:
        repeated = tries.lost
        try:
            answer = self._answer(call)
        except GatewayConnectionError as failure:
            tries.note(failure)
            raise
        return value_of(call, answer, repeated=repeated)

    def _connections(self) -> urllib3.PoolManager:
        """Those of this process: over one of its parent's, each would read answers that are the other's."""
        if self._process != os.getpid():
            self._pool, self._process = _pool(), os.getpid()
        return self._pool

    def _answer(self, call: Call[Any]) -> Answer:
        limit_s = self.way.limit_s(call)
        limits = urllib3.Timeout(connect=min(way.CONNECT_S, limit_s), read=limit_s)
        try:
            response = self._connections().request(
                call.method,
                self.way.target(call),
                body=way.body_of(call),
                headers={name: _octets(value) for name, value in self.way.headers(call).items()},
                timeout=limits,
                redirect=False,
            )
        except exceptions.ConnectTimeoutError as error:  # a refused connection is one of them
            raise GatewayConnectionError(self.way.unreached(error), sent=False) from error
        except exceptions.HTTPError as error:
            raise GatewayConnectionError(self.way.unanswered(call, error), sent=True) from error
        return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, response.data)


def _octets(value: str) -> str:
    """A header's UTF-8, each byte of it as the character that the library makes that byte of."""
    return value.encode().decode("latin-1")


def _pool() -> urllib3.PoolManager:
    return urllib3.PoolManager(maxsize=_POOLED, retries=False)
