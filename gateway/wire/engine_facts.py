"""What a vLLM server tells of itself: its models, its version, its ranks, and how much each of these has to do.

Nothing of it is relied on that does not look as it should: what cannot be read is not known.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson
from prometheus_client.parser import text_string_to_metric_families

MOST_RANKS = 1024
"""Data-parallel ranks of one server; more are no number to be believed."""
_MOST_LINES = 8 * MOST_RANKS
"""Of a page of metrics, of those lines that are read; the parser takes 30 µs for each."""
_MOST_DIGITS = 18
RANK_SINCE = (0, 22)
"""The release of vLLM since which X-data-parallel-rank counts when ids are generated; before, it is ignored."""
_OUT_OF_RANGE = re.compile(r"out of range \[0, (\d+)\)")


class ModelsFacts(NamedTuple):
    """What it serves."""

    names: frozenset[str]
    """LoRA adapters included."""
    window: int
    """Longest prompt and completion together, in tokens."""


@dataclass(frozen=True, slots=True)
class RankFacts:
    """What its metrics say of one rank."""

    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    kv_tokens: int | None = None
    """What its KV cache holds; ``None`` where they do not say."""

    def __add__(self, other: "RankFacts") -> "RankFacts":
        """Two ranks as one, where turns cannot choose between them."""
        known = self.kv_tokens is not None and other.kv_tokens is not None
        return RankFacts(
            self.running + other.running,
            self.waiting + other.waiting,
            max(self.kv_usage, other.kv_usage),
            self.prompt_tokens + other.prompt_tokens,
            self.generation_tokens + other.generation_tokens,
            (self.kv_tokens or 0) + (other.kv_tokens or 0) if known else None,
        )


def dotted(version: Sequence[int]) -> str:
    """A release as it is written."""
    return ".".join(map(str, version))


def read_models(body: bytes) -> ModelsFacts:
    """The answer to ``GET /v1/models``.

    Raises:
        ValueError: it does not say `max_model_len`, so that this is no vLLM.
    """
    try:
        cards = [card for card in orjson.loads(body)["data"] if isinstance(card, dict)]
    except (LookupError, TypeError, ValueError):  # of them is orjson's
        cards = []
    lengths = [card.get("max_model_len") for card in cards]
    known = [length for length in lengths if type(length) is int and length > 0]
    if not known:
        raise ValueError("/v1/models does not say max_model_len: is this a vLLM?")
    return ModelsFacts(frozenset(card["id"] for card in cards if isinstance(card.get("id"), str)), min(known))


def read_version(body: bytes) -> tuple[int, int] | None:
    """Major and minor number, of the answer to ``GET /version``."""
    try:
        number = re.match(r"(\d{1,9})\.(\d{1,9})", orjson.loads(body)["version"])
    except (LookupError, TypeError, ValueError):
        return None
    return (int(number[1]), int(number[2])) if number else None


def read_server_info(body: bytes) -> int | None:
    """How many ranks a call can choose between, of the answer to ``GET /server_info?config_format=json``.

    Behind a load balancer of its own, a server has the ranks of its node only, be they one or several.
    """
    try:
        parallel = orjson.loads(body)["vllm_config"]["parallel_config"]
        apart = parallel.get("data_parallel_external_lb") or parallel.get("data_parallel_hybrid_lb")
        ranks = parallel["data_parallel_size_local" if apart else "data_parallel_size"]
    except (AttributeError, LookupError, TypeError, ValueError):
        return None
    return ranks if type(ranks) is int and 1 <= ranks <= MOST_RANKS else None


def read_refusal(message: str) -> int | None:
    """How many ranks there are, of what it says to a rank that it has not."""
    told = _OUT_OF_RANGE.search(message)
    ranks = _number(told[1]) if told else None
    return ranks if ranks and ranks <= MOST_RANKS else None


def read_metrics(body: bytes) -> Sequence[RankFacts]:
    """The ranks of a server in their order, of the answer to ``GET /metrics``; none where it tells of none.

    Those of a server behind a load balancer of its own need not begin at 0, and yet are counted from 0 by who calls it.
    """
    told: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    caches: dict[str, Mapping[str, str]] = {}
    try:
        # Of some thousand lines these few are of interest, and the parser takes its time.
        lines = [line for line in body.decode().splitlines() if line.partition("{")[0] in _READ]
        if len(lines) > _MOST_LINES:
            return ()
        for family in text_string_to_metric_families("\n".join([*lines, ""])):
            for sample in family.samples:
                label = sample.labels.get("engine", "")
                if sample.name == _CACHE:
                    caches[label] = sample.labels
                elif math.isfinite(sample.value):
                    told[label][sample.name] += sample.value
    except ValueError:
        return ()
    labels = sorted((label for label, values in told.items() if _RUNNING in values), key=_order)
    if len(labels) > MOST_RANKS:
        return ()
    return [_facts(told[label], caches.get(label, {}), len(labels)) for label in labels]


_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
_USAGE = "vllm:kv_cache_usage_perc"
_PROMPT, _GENERATION = "vllm:prompt_tokens_total", "vllm:generation_tokens_total"
_CACHE = "vllm:cache_config_info"
_CACHE_LABELS = "kv_cache_size_tokens", "block_size", "num_gpu_blocks"
_READ = {_RUNNING, _WAITING, _USAGE, _PROMPT, _GENERATION, _CACHE}


def _order(label: str) -> tuple[int, str]:
    number = _number(label)
    return (-1 if number is None else number), label


def _number(text: str) -> int | None:
    """A number that a server wrote as text; ``None`` where it is none, or beyond all bounds."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _facts(values: Mapping[str, float], cache: Mapping[str, str], ranks: int) -> RankFacts:
    return RankFacts(
        int(values[_RUNNING]),
        int(values[_WAITING]),
        values[_USAGE],
        int(values[_PROMPT]),
        int(values[_GENERATION]),
        _kv_tokens(cache, ranks),
    )


def _kv_tokens(cache: Mapping[str, str], ranks: int) -> int | None:
    """The size of one rank's KV cache. Blocks are said of all ranks together, tokens of each (vLLM 0.32)."""
    told, size, blocks = (_number(cache.get(name, "")) for name in _CACHE_LABELS)
    return told or (size or 0) * (blocks or 0) // ranks or None
