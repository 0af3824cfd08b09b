"""One call to ``/admin/engines`` of a running gateway."""

import asyncio

import orjson
from aiohttp import ClientError, ClientSession, ClientTimeout

from gateway.core.types import JsonObject
from gateway.wire.engine_error import loaded

_LIMIT_S = 60.0
"""How long the gateway may take: an engine that is removed is let go on for some seconds."""


class Refused(Exception):
    """The gateway cannot be reached, or does not do it; the text says why."""


def call(method: str, gateway: str, key: str, body: JsonObject | None) -> JsonObject:
    """What the gateway answers.

    Raises:
        Refused: it does not, or it refuses.
    """
    return asyncio.run(_called(method, gateway, key, body))


async def _called(method: str, gateway: str, key: str, body: JsonObject | None) -> JsonObject:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    data = None if body is None else orjson.dumps(body)
    url = f"{gateway.rstrip('/')}/admin/engines"
    try:
        async with (
            ClientSession(timeout=ClientTimeout(total=_LIMIT_S)) as http,
            http.request(method, url, data=data, headers=headers) as response,
        ):
            answer, status = loaded(await response.read()), response.status
    except (ClientError, OSError) as error:  # timeouts are among them
        raise Refused(f"the gateway at {gateway} cannot be reached: {str(error) or type(error).__name__}") from error
    if status == 200 and isinstance(answer, dict):
        return answer
    told = answer.get("error") if isinstance(answer, dict) else None
    why = told.get("message") if isinstance(told, dict) else "is this a gateway?"
    raise Refused(f"the gateway at {gateway} refuses ({status}): {why}")
