"""What an engine sends, event by event, and a collector that took it."""

from typing import Any

import orjson

from gateway.core.types import Completion
from gateway.wire.collector import Collector

DONE = b"[DONE]"


def fed(*payloads: bytes, top_logprobs: int | None = None) -> Collector:
    """A collector that took `payloads`."""
    collector = Collector(top_logprobs)
    for payload in payloads:
        collector.feed(payload)
    return collector


def named(token_id: int, logprob: object = -1.0) -> dict[str, object]:
    """One logprob as 0.32 writes it."""
    return {"token_id": token_id, "logprob": logprob}


def event(ids: Any = (5,), logprobs: Any = ..., **choice: object) -> bytes:
    """An event whose one choice has `ids`, each with its logprob unless `logprobs` says otherwise."""
    if logprobs is ...:
        logprobs = {"content": [named(i) for i in ids]}
    return orjson.dumps({"choices": [{"index": 0, "token_ids": ids, "logprobs": logprobs, **choice}]})


def beside(token_id: int, *alternatives: object) -> dict[str, object]:
    """A logprob with its alternatives."""
    return {**named(token_id), "top_logprobs": list(alternatives)}


def seen(completion: Completion) -> dict[str, object]:
    """A completion as golden files write it."""
    return {
        "ids": completion.ids.tolist(),
        "logprobs": completion.logprobs.tolist(),
        "finish_reason": completion.finish_reason.value,
        "spans": [[part.version, part.start, part.end, part.source] for part in completion.spans],
    }
