"""What an engine is, found out when it is admitted, and again when it was away: its ranks, and the cache of each.

In this order: what the operator says of the number of its ranks; its configuration, in vLLM's development mode; whose
metrics it shows; what it says to a rank that it cannot have. Nothing of it takes long, or keeps it from serving turns:
what a busy engine does not say in time it is asked again by later checks, more patiently.
"""

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import reduce
from operator import add

import structlog

from gateway.core.types import Sampling, TurnRequest
from gateway.edge.engine import Engine
from gateway.errors import GatewayError
from gateway.wire.collector import Collector
from gateway.wire.engine_facts import RANK_SINCE, RankFacts, read_metrics, read_refusal, read_server_info
from gateway.wire.generate import RANK_HEADER, encode_request

log = structlog.get_logger()

COUNT_S = 0.3
"""How long a question may take at admission, so that all of them together hold a start up for less than a second."""
_CONFIGURATION = "/server_info?config_format=json"
_NO_RANK = 1_000_000
"""A rank that no engine has."""
_TOP_K = 20
"""Engines that return sampling masks insist on one."""
IGNORED = f"{RANK_HEADER} is ignored before vLLM 0.22"
_REMEDY = "give each rank a URL of its own, or use vLLM 0.22 or later"


@dataclass(frozen=True, slots=True)
class RankFinding:
    """Between how many ranks of an engine a turn can choose."""

    ranks: int | None
    """``None`` where it does not say so in time."""
    behind: int | None = None
    """How many there are behind its URL, whether or not a turn can choose; ``None`` where it does not say."""
    refusal: GatewayError | None = None
    """What it said to a rank that it cannot have, where it was asked for one, and minded."""
    facts: Sequence[RankFacts] = ()
    """What its metrics say of its ranks."""
    said: int | None = None
    """How many it says itself that it has; ``None`` where it does not say."""


async def find_ranks(
    engine: Engine, prompt: Sequence[int] | None, limit_s: float = COUNT_S, *, thorough: bool = False
) -> RankFinding:
    """Ask an engine for its ranks. It does not raise.

    What it says to a rank that it cannot have is asked where it says it nowhere else, or for who is `thorough`; without
    a `prompt` nothing is sampled for that. Where it has fewer than the operator says, its own word counts.
    """
    metrics, configuration = await asyncio.gather(
        engine.told("/metrics", limit_s=limit_s), engine.told(_CONFIGURATION, limit_s=limit_s)
    )
    facts = read_metrics(metrics or b"")
    said = read_server_info(configuration or b"") or len(facts)
    ignored = engine.version is not None and engine.version < RANK_SINCE
    in_time, refusal = metrics is not None and configuration is not None, None
    if thorough or not (said or ignored):
        minded, refusal = await _refusal(engine, prompt, limit_s) if prompt else (None, None)
        in_time = in_time and minded is not None
    refused = read_refusal(refusal.message) if refusal else None
    own, told = said or refused or None, engine.declared_ranks
    ranks = min(told, own) if told and own else told or own or (1 if in_time else None)
    return RankFinding(1 if ignored else ranks, refused or told or own, refusal, facts, own)


async def count_ranks(engine: Engine, prompt: Sequence[int] | None, limit_s: float = COUNT_S) -> Sequence[RankFacts]:
    """Find out between how many ranks of an engine a turn can choose, and what its metrics say of them.

    It does not raise: what an engine does not say in time is taken to be as it was, and it is to be asked again.
    """
    found = await find_ranks(engine, prompt, limit_s)
    if found.ranks == 1 and (found.behind or 1) > 1:
        log.warning(IGNORED, engine=engine.url, ranks=found.behind, used=1, remedy=_REMEDY)
    elif engine.declared_ranks and found.said and engine.declared_ranks != found.said != engine.contradicted:
        log.warning(
            "#dp is not what the engine says", engine=engine.url, told=engine.declared_ranks, engine_says=found.said
        )
        engine.contradicted = found.said
    engine.ranks = found.ranks or engine.ranks
    engine.labels = len(found.facts) or engine.labels
    engine.untold = engine.untold or found.ranks is None
    return found.facts


async def facts_of(engine: Engine, limit_s: float) -> Sequence[RankFacts]:
    """What an engine's metrics say of its ranks; nothing where it shows none."""
    return read_metrics(await engine.told("/metrics", limit_s=limit_s) or b"")


def by_rank(facts: Sequence[RankFacts], ranks: int) -> Sequence[RankFacts | None]:
    """The facts of each rank that turns can choose; those between which they cannot are taken together."""
    if ranks == 1 and facts:
        return [reduce(add, facts)]
    return [*facts[:ranks], *[None] * (ranks - len(facts))]


async def _refusal(engine: Engine, prompt: Sequence[int], limit_s: float) -> tuple[bool | None, GatewayError | None]:
    """Whether a rank that there is not was refused, and how; ``None`` where it did not say: to be busy, or to fail, is
    no answer.
    """
    try:
        async with asyncio.timeout(limit_s):
            await sampled_one(engine, prompt, _NO_RANK)
    except GatewayError as error:
        return not error.retryable or read_refusal(error.message) is not None or None, error
    except TimeoutError:
        return None, None
    return False, None


async def sampled_one(engine: Engine, prompt: Sequence[int], rank: int) -> None:
    """Have one token sampled on a rank, as a turn would; that it fails raises no doubts beyond what it says.

    Raises:
        GatewayError: it was refused, or came without its logprob.
    """
    request = TurnRequest((), sampling=Sampling(top_k=_TOP_K))
    body, collector = encode_request(prompt, request, max_tokens=1, stop_ids=()), Collector()
    request_id = f"probe-{secrets.token_hex(12)}"
    async with aclosing(engine.generate(body, request_id=request_id, rank=rank, doubts=False)) as payloads:
        async for payload in payloads:
            collector.feed(payload)
    collector.completion()
