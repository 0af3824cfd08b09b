"""How a client marks a retry, and how the gateway marks what it answers again."""

from collections.abc import Mapping

from tests.edge.house import Answer


def retry(count: object = 1) -> Mapping[str, str]:
    """The header of an SDK's retry."""
    return {"x-stainless-retry-count": str(count)}


def keyed(key: str) -> Mapping[str, str]:
    """The header of a request that may be sent again."""
    return {"Idempotency-Key": key}


def turn_id(answer: Answer) -> str:
    """Which turn an answer shows."""
    assert answer.status == 200
    return answer.headers["x-turn-id"]


def is_replayed(answer: Answer) -> bool:
    """Whether it was there before it was asked for."""
    return answer.headers.get("x-gateway-replayed") == "true"
