"""The sim's metrics, in vLLM's names and labels."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.sim.ranks import Ranks

_FINISHES = ("stop", "length", "abort", "error", "repetition")
_COUNTERS = {
    "vllm:prefix_cache_queries": ("queries", "Prompt tokens looked up in the prefix cache."),
    "vllm:prefix_cache_hits": ("hits", "Prompt tokens found in the prefix cache."),
    "vllm:prompt_tokens": ("prompt", "Prompt tokens taken in, cached ones included."),
    "vllm:generation_tokens": ("generation", "Tokens generated."),
}


class _Ranks(Collector):
    def __init__(self, model: str, ranks: Ranks) -> None:
        self.model, self.ranks = model, ranks

    def collect(self) -> Iterable[Metric]:
        labels = ("engine", "model_name")
        running = GaugeMetricFamily("vllm:num_requests_running", "Requests being generated.", labels=labels)
        waiting = GaugeMetricFamily("vllm:num_requests_waiting", "Requests waiting for a place.", labels=labels)
        usage = GaugeMetricFamily("vllm:kv_cache_usage_perc", "KV cache in use; 1 is all of it.", labels=labels)
        counters = {name: CounterMetricFamily(name, text, labels=labels) for name, (_, text) in _COUNTERS.items()}
        success = CounterMetricFamily(
            "vllm:request_success", "Requests finished.", labels=("engine", "model_name", "finished_reason")
        )
        for rank in self.ranks:
            here = (str(rank.number), self.model)
            running.add_metric(here, rank.running)
            waiting.add_metric(here, rank.waiting)
            usage.add_metric(here, min(1.0, rank.held_tokens / (rank.cache.capacity * rank.cache.block_size)))
            for name, (counted, _) in _COUNTERS.items():
                counters[name].add_metric(here, rank.counts[counted])
            for reason in _FINISHES:
                success.add_metric((*here, reason), rank.counts[f"finished:{reason}"])
        return (running, waiting, usage, *counters.values(), success)


def exposition(model: str, ranks: Ranks) -> bytes:
    """All metrics as Prometheus reads them."""
    registry = CollectorRegistry()
    registry.register(_Ranks(model, ranks))
    return generate_latest(registry)
