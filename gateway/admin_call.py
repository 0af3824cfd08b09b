"""One call to a running gateway, from the command line."""

import asyncio
import sys

import orjson
from aiohttp import ClientError, ClientSession, ClientTimeout
from yarl import URL

from gateway.core.types import JsonObject
from gateway.errors import ConfigError
from gateway.wire.engine_error import loaded
from gateway.wire.engines import is_server_url

_LIMIT_S = 60.0
"""How long the gateway may take: an engine that is removed is let go on for some seconds."""


class Refused(Exception):
    """The gateway cannot be reached, or does not do it; the text says why."""


def asked(method: str, gateway: str, path: str, key: str, body: JsonObject | None, *, said_by: str) -> JsonObject:
    """What the gateway answers, for a command that is known as `said_by`; nothing where it has nothing to say.

    What it refuses is said on standard error, and ends the process: with 1, or with 2 if it could not be asked.
    """
    try:
        return call(method, gateway, path, key, body)
    except ConfigError as error:
        print(f"{said_by}: {error}", file=sys.stderr)
        sys.exit(2)
    except Refused as error:
        print(f"{said_by}: {error}", file=sys.stderr)
        sys.exit(1)


def call(method: str, gateway: str, path: str, key: str, body: JsonObject | None = None) -> JsonObject:
    """What the gateway answers under a path, which is taken as it stands.

    Raises:
        Refused: it does not, or it refuses.
        ConfigError: its URL is none, or the key is none.
    """
    if not is_server_url(gateway):
        shown = "" if "@" in gateway else f" {gateway!r}"  # which may be a password
        raise ConfigError(f"the URL{shown} is no URL of a gateway: give http://host:port, and a key with --key")
    if not key.isprintable():
        raise ConfigError("--key has characters that no key can have: is there a line break at its end?")
    return asyncio.run(_called(method, gateway, path, key, body))


async def _called(method: str, gateway: str, path: str, key: str, body: JsonObject | None) -> JsonObject:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    data = None if body is None else orjson.dumps(body)
    url = URL(f"{gateway.rstrip('/')}{path}", encoded=True)
    try:
        async with (
            ClientSession(timeout=ClientTimeout(total=_LIMIT_S)) as http,
            http.request(method, url, data=data, headers=headers) as response,
        ):
            content, status = await response.read(), response.status
    except (ClientError, OSError) as error:  # timeouts are among them
        raise Refused(f"the gateway at {gateway} cannot be reached: {str(error) or type(error).__name__}") from error
    if status == 204:
        return {}
    answer = loaded(content)
    if status == 200 and isinstance(answer, dict):
        return answer
    told = answer.get("error") if isinstance(answer, dict) else None
    why = told.get("message") if isinstance(told, dict) else "is this a gateway?"
    raise Refused(f"the gateway at {gateway} refuses ({status}): {why}")
