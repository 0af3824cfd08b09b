"""A vLLM server that is asked to render and to parse, over HTTP.

A call is made again when the server is busy, fails or cannot be reached, since rendering changes nothing there, as long
as `gateway.render.patience` has it. Bodies
carry prompts: nothing of them is told or logged.
"""

import os
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPSConnectionPool, PoolManager, Retry, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, InvalidHeader, MaxRetryError

from gateway.core.echo import tells_context_is_full, without_echo
from gateway.errors import BadRequest, ContextLengthExceeded, EngineLost, EngineUnavailable, GatewayError, RendererError
from gateway.render.patience import CALL_S, GivenUpError, patience

CALLS_AT_ONCE = 32
"""Threads that may wait for renders, and connections that are kept for them."""


class _Retries(Retry):
    """Waits between tries no longer than somebody waits for them."""

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        """What the server says, unless that says nothing."""
        try:
            return super().get_retry_after(response)
        except InvalidHeader:
            return None

    def sleep(self, response: BaseHTTPResponse | None = None) -> None:
        """As the server says, or else the backoff."""
        told = self.get_retry_after(response) if response is not None else None
        patience().sleep(told or self.get_backoff_time())


RETRIES = _Retries(
    total=4,
    read=2,
    status_forcelist=[HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS, *range(500, 600)],
    allowed_methods=None,  # any: these POSTs change nothing
    backoff_factor=0.2,
    backoff_jitter=0.1,
    retry_after_max=10,
    raise_on_status=False,
)
"""One at once, then after 0.4, 0.8 and 1.6 s, or as ``Retry-After`` says: 10 s at most."""
_TIMEOUT = Timeout(connect=5.0, read=CALL_S)
_NOT_SERVED = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
"""What is answered where --enable-scale-out opens a route, and it is closed: which one depends on the release."""
_REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
"""What is answered to a body that the server takes fault with."""
_AGAIN_S = 0.5
_SHOWN_CHARS = 300

Json = dict[str, object]


class _Connection(HTTPConnection):
    """Tells who is patient with its answer what it is read from."""

    def send(self, data: Any) -> None:  # as wide as in the standard library
        """As there."""
        if self.sock is None:
            self.connect()
        patience().hold(self.sock)
        super().send(data)


class _TlsConnection(_Connection, HTTPSConnection):
    """The same over TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class RenderServer:
    """The server at `url`, which wants `api_key` unless that is empty.

    Threads may share it, and so may a process and those that are forked from it: each has connections of its own.

    Mutable state: the connections, by process.
    """

    def __init__(self, url: str, *, api_key: str = "") -> None:
        self.url = url.partition("#")[0].rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._pools: dict[int, PoolManager] = {}

    def ask(self, path: str, body: Mapping[str, object]) -> Json:
        """What the server answers.

        Raises:
            BadRequest: it refuses what is asked, in its own words; `ContextLengthExceeded` if that is too long.
            EngineUnavailable: it is busy or fails, also when asked again, or cannot be reached.
            RendererError: it does not serve this, or answers something else than JSON.
        """
        response = self._post(path, body)
        if response.status != HTTPStatus.OK:
            raise self._refusal(path, response)
        answer = _loaded(response.data)
        if not isinstance(answer, dict):
            raise RendererError(f"{self.url}{path} answered no JSON object, but {shown(response.data)}")
        return answer

    def has(self, path: str) -> bool:
        """Whether the server serves `path`: it then finds fault with an empty body, and not with the path.

        Raises:
            EngineUnavailable, RendererError: see `ask`; it tells neither.
        """
        response = self._post(path, {})
        if response.status in _NOT_SERVED:
            return False
        if response.status in _REFUSED:
            return True
        raise self._refusal(path, response)

    def wait(self, path: str) -> None:
        """Wait until the server answers at all, as long as the patience of this call lasts.

        Raises:
            EngineUnavailable: it has not.
        """
        while True:
            try:
                self.has(path)
            except RendererError:  # an answer
                return
            except EngineUnavailable as error:
                try:
                    patience().sleep(_AGAIN_S)
                except GivenUpError:
                    raise error from None
            else:
                return

    def _post(self, path: str, body: Mapping[str, object]) -> BaseHTTPResponse:
        url, data = f"{self.url}{path}", orjson.dumps(body)
        try:
            with patience().request():
                return self._pool().request("POST", url, body=data, retries=RETRIES, redirect=False, timeout=_TIMEOUT)
        except GivenUpError:
            raise EngineLost(f"the server that renders, {self.url}, has not answered in {CALL_S:.0f} s") from None
        except HTTPError as error:
            reason = error.reason if isinstance(error, MaxRetryError) and error.reason else error
            raise EngineLost(
                f"the server that renders, {self.url}, does not answer: {type(reason).__name__}"
            ) from error

    def _pool(self) -> PoolManager:
        # Sockets that a fork inherits are its parent's, which goes on reading from them.
        pid = os.getpid()
        if pid not in self._pools:
            self._pools[pid] = PoolManager(1, self._headers, maxsize=CALLS_AT_ONCE)
            self._pools[pid].pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
        return self._pools[pid]

    def _refusal(self, path: str, response: BaseHTTPResponse) -> GatewayError:
        status, where = response.status, f"{self.url}{path}"
        answer = _loaded(response.data)
        error = answer.get("error") if isinstance(answer, dict) else None
        words = error.get("message") if isinstance(error, dict) else None
        text = without_echo(words) if isinstance(words, str) else "without saying why"
        if status in RETRIES.status_forcelist:
            return EngineUnavailable(f"the server that renders failed ({status}): {text}")
        if status == HTTPStatus.UNAUTHORIZED:
            return RendererError(f"{where} wants an API key: start the gateway with --engine-key")
        if status in _NOT_SERVED and not (status == HTTPStatus.NOT_FOUND and "model" in text):
            return RendererError(
                f"{where} is not served: restart `vllm serve` with --enable-scale-out ({status}: {text})"
            )
        if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return ContextLengthExceeded("the messages are larger than the server that renders takes")
        if status not in _REFUSED:
            return RendererError(f"{where} answered {status}: {text}")
        if tells_context_is_full(text):
            return ContextLengthExceeded(text)
        return BadRequest(f"the engine cannot render these messages: {text}", param="messages")


def shown(answer: bytes) -> str:
    """The beginning of an answer, to tell what is wrong with it."""
    text = answer[:_SHOWN_CHARS].decode(errors="replace")
    return text + "…" * (len(answer) > _SHOWN_CHARS)


def _loaded(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
