"""The sim's metrics, in vLLM's names and labels."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.sim.ranks import Ranks

_FINISHES = ("stop", "length", "abort", "error", "repetition")
_CACHE_LABELS = ("engine", "block_size", "num_gpu_blocks", "kv_cache_size_tokens")
_COUNTERS = {
    "vllm:prefix_cache_queries": ("queries", "Prompt tokens looked up in the prefix cache."),
    "vllm:prefix_cache_hits": ("hits", "Prompt tokens found in the prefix cache."),
    "vllm:prompt_tokens": ("prompt", "Prompt tokens taken in, cached ones included."),
    "vllm:generation_tokens": ("generation", "Tokens generated."),
}


class _Ranks(Collector):
    def __init__(self, model: str, ranks: Ranks, *, says_tokens: bool) -> None:
        self.model, self.ranks = model, ranks
        self._labels = _CACHE_LABELS if says_tokens else _CACHE_LABELS[:-1]

    def collect(self) -> Iterable[Metric]:
        labels = ("engine", "model_name")
        running = GaugeMetricFamily("vllm:num_requests_running", "Requests being generated.", labels=labels)
        waiting = GaugeMetricFamily("vllm:num_requests_waiting", "Requests waiting for a place.", labels=labels)
        usage = GaugeMetricFamily("vllm:kv_cache_usage_perc", "KV cache in use; 1 is all of it.", labels=labels)
        counters = {name: CounterMetricFamily(name, text, labels=labels) for name, (_, text) in _COUNTERS.items()}
        success = CounterMetricFamily(
            "vllm:request_success", "Requests finished.", labels=("engine", "model_name", "finished_reason")
        )
        cache = GaugeMetricFamily("vllm:cache_config_info", "The KV cache.", labels=self._labels)
        for rank in self.ranks:
            here = (str(rank.number), self.model)
            running.add_metric(here, rank.running)
            waiting.add_metric(here, rank.waiting)
            # As vLLM has them: tokens of each rank, blocks of all together.
            size, blocks = rank.cache.block_size, rank.cache.capacity
            told = (here[0], str(size), str(blocks * len(self.ranks)), str(blocks * size))
            cache.add_metric(told[: len(self._labels)], 1)
            usage.add_metric(here, min(1.0, rank.held_tokens / (rank.cache.capacity * rank.cache.block_size)))
            for name, (counted, _) in _COUNTERS.items():
                counters[name].add_metric(here, rank.counts[counted])
            for reason in _FINISHES:
                success.add_metric((*here, reason), rank.counts[f"finished:{reason}"])
        return (running, waiting, usage, cache, *counters.values(), success)


def exposition(model: str, ranks: Ranks, *, says_tokens: bool = True) -> bytes:
    """All metrics as Prometheus reads them; with the tokens that a KV cache holds, as newer releases have it."""
    registry = CollectorRegistry()
    registry.register(_Ranks(model, ranks, says_tokens=says_tokens))
    return generate_latest(registry)
