"""What Prometheus sees. Labels are bounded: never a session, a request or a key."""

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from gateway.core.pause import Scope
from gateway.core.turn import Turn
from gateway.edge.log import dropped_lines
from gateway.render.certification import STATES, Audits, Certifications

_WAITS_S = (0.001, 0.01, 0.1, 0.5, 1, 5, 15, 60, 120, 300, 600)


class _DroppedLines(Collector):
    """What the process counts, and not one gateway in it."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily("gateway_log_lines_dropped", "Log lines that nobody took.", value=dropped_lines())


class _Seconds(Collector):
    """A sum of time that goes on by itself."""

    def __init__(self, name: str, text: str, total_s: Callable[[], float]) -> None:
        self._name, self._text, self._total_s = name, text, total_s

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(f"gateway_{self._name}", self._text, value=self._total_s())


class _Bridges(Collector):
    """What is known of bridges that are certified."""

    def __init__(self, certifications: Callable[[], Iterable[Certifications[Any]]], audits: Audits) -> None:
        self._certifications, self._audits = certifications, audits

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        audits, shapes = self._audits.counts(), Counts(dict.fromkeys(STATES, 0))
        for known in self._certifications():
            shapes.update(known.shapes())
        held = CounterMetricFamily("gateway_bridge_audits", "Bridges held against a full render.", labels=["result"])
        known_shapes = GaugeMetricFamily(
            "gateway_bridge_shapes", "Shapes of turns, by whether they may be bridged.", labels=["state"]
        )
        for family, counts in ((held, audits), (known_shapes, shapes)):
            for label, count in counts.items():
                family.add_metric([label], count)
            yield family


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
        self.cuts = self._counter("cuts", "Calls of engines that ended before their answers did.", "reason")
        self.resumes = self._counter("resumes", "What became of answers that were cut.", "outcome")
        self.resumed_tokens = self._counter("resumed_tokens", "Sampled tokens that calls went on from.")
        self.in_flight = self._gauge("turns_in_flight", "Turns under way.", "engine", "rank")
        self._queue_turns = self._gauge("queue_turns", "Turns that wait for a rank.", "engine", "rank")
        self._resident = self._gauge(
            "rank_resident_tokens", "What sessions take up in a rank's KV cache, idle ones too.", "engine", "rank"
        )
        self.queue_wait = Histogram(
            "gateway_queue_wait_seconds", "Waits for a rank, but for pauses.", buckets=_WAITS_S, registry=self.registry
        )
        self.moves = self._counter("session_moves", "Sessions that went to another rank, and why.", "reason")
        self.reprefill = self._counter("reprefill_tokens", "Tokens that moves had to prefill again.", "reason")
        self._streams = self._gauge("streams", "Streams that clients read.")
        self._buffered = self._gauge("stream_buffered_bytes", "What clients have not taken of what was said.")
        self._most = self._gauge("stream_buffered_bytes_max", "What the client furthest behind has not taken.")

    def show_bridges(self, certifications: Callable[[], Iterable[Certifications[Any]]], audits: Audits) -> None:
        """Show what is known of bridges, whenever it is asked for."""
        self.registry.register(_Bridges(certifications, audits))

    def show_streams(self, buffered_bytes: Callable[[], Sequence[int]]) -> None:
        """Show what waits for the client of each open stream, whenever it is asked for."""
        self._streams.set_function(lambda: len(buffered_bytes()))
        self._buffered.set_function(lambda: sum(buffered_bytes()))
        self._most.set_function(lambda: max(buffered_bytes(), default=0))

    def show_pauses(
        self, held: Callable[[], Scope | None], held_s: Callable[[], float], waiting: Callable[[], int]
    ) -> None:
        """Show whether turns are held, for how long they were, and how many wait meanwhile."""
        self._gauge("paused", "Whether turns are held.").set_function(lambda: held() is not None)
        self.registry.register(_Seconds("pause_seconds", "For how long turns were held.", held_s))
        gauge = self._gauge("turns_held", "Turns that wait for a rank while turns are held.")
        gauge.set_function(lambda: waiting() if held() else 0)

    def show_policy(self, ordinal: Callable[[], int], staleness: Callable[[], Iterable[int]]) -> None:
        """Show which announced policy samples now, and how old the oldest is that has sampled what is under way."""
        self._gauge("policy_ordinal", "Ordinal of the policy announced last.").set_function(ordinal)
        oldest = self._gauge("policy_staleness", "Versions newer than the oldest that sampled a turn in flight.")
        oldest.set_function(lambda: max(staleness(), default=0))

    def show_rank(
        self,
        engine: str,
        rank: int,
        *,
        in_flight: Callable[[], float],
        waiting: Callable[[], float],
        resident_tokens: Callable[[], float],
    ) -> None:
        """Show how much a rank has to do, whenever it is asked for."""
        for gauge, value in zip(self._of_ranks(), (in_flight, waiting, resident_tokens), strict=True):
            gauge.labels(engine=engine, rank=str(rank)).set_function(value)

    def forget_rank(self, engine: str, rank: int) -> None:
        """Show nothing of a rank any more."""
        for gauge in self._of_ranks():
            gauge.remove(engine, str(rank))

    def forget_engine(self, engine: str) -> None:
        """Show nothing of an engine any more."""
        self.missing_arrays.remove_by_labels({"engine": engine})

    def _of_ranks(self) -> tuple[Gauge, Gauge, Gauge]:
        return self.in_flight, self._queue_turns, self._resident

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
