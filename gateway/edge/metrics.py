"""What Prometheus sees. Labels are bounded: never a session, a request or a key."""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from gateway.core.turn import Turn
from gateway.edge.log import dropped_lines


class _DroppedLines(Collector):
    """What the process counts, and not one gateway in it."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily("gateway_log_lines_dropped", "Log lines that nobody took.", value=dropped_lines())


class Metrics:
    """The metrics of one gateway; each has its own registry, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.turns = self._counter("turns", "Recorded turns, complete or aborted.", "status")
        self.prompts = self._counter("prompts", "Prompts, bridged or rendered, and why rendered.", "how", "reason")
        self.differences = self._counter("message_differences", "Differences accepted in replayed answers.", "kind")
        self.difference_tokens = self._counter(
            "message_difference_tokens", "Sampled tokens of the answers that were replayed so.", "kind"
        )
        self.tokens = self._counter("tokens", "Prompt, completion and overshoot tokens of recorded turns.", "type")
        self.replays = self._counter("replays", "Answers to retries that were sampled for an earlier call.")
        self.errors = self._counter("errors", "Error answers, by code.", "code")
        self.registry.register(_DroppedLines())
        self.distributions = self._counter(
            "turn_distributions", "Recorded turns by what they were sampled from.", "distribution", "logprobs_exact"
        )
        self.flags = self._counter("turn_flags", "What was odd about the answers of recorded turns.", "flag")
        self.missing_arrays = self._counter(
            "side_arrays_missing", "Turns without a side array that was wanted.", "array", "engine"
        )
        self.in_flight = self._gauge("turns_in_flight", "Turns under way.", "engine", "rank")
        self._streams = self._gauge("streams", "Streams that clients read.")
        self._buffered = self._gauge("stream_buffered_bytes", "What clients have not taken of what was said.")
        self._most = self._gauge("stream_buffered_bytes_max", "What the client furthest behind has not taken.")

    def watch(self, buffered_bytes: Callable[[], Sequence[int]]) -> None:
        """Show what waits for the client of each open stream, whenever it is asked for."""
        self._streams.set_function(lambda: len(buffered_bytes()))
        self._buffered.set_function(lambda: sum(buffered_bytes()))
        self._most.set_function(lambda: max(buffered_bytes(), default=0))

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"gateway_{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"gateway_{name}", text, labels, registry=self.registry)

    def count(self, turn: Turn) -> None:
        """Count one recorded turn."""
        self.turns.labels(status=turn.status).inc()
        exact = str(turn.sampling.logprobs_exact).lower()
        self.distributions.labels(distribution=turn.sampling.distribution, logprobs_exact=exact).inc()
        self.prompts.labels(how=turn.how, reason=turn.reason or "").inc()
        self.tokens.labels(type="prompt").inc(turn.prompt_length)
        self.tokens.labels(type="completion").inc(len(turn.completion.ids))
        self.tokens.labels(type="overshoot").inc(turn.completion.overshoot_tokens)
        for flag in turn.flags:
            self.flags.labels(flag=flag).inc()
        for kind, found in turn.differences.items():
            self.differences.labels(kind=kind).inc(found.messages)
            self.difference_tokens.labels(kind=kind).inc(found.tokens)

    def text(self) -> bytes:
        """The exposition in Prometheus' text format."""
        return generate_latest(self.registry)
