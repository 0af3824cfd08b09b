"""What Prometheus sees. Labels are bounded: never a session, a request or a key."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_DURATION_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)


class Metrics:
    """The metrics of one gateway; each has its own registry, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.turns = Counter(
            "gateway_turns", "Recorded turns, complete or aborted.", ["status"], registry=self.registry
        )
        self.prompts = Counter(
            "gateway_prompts",
            "Prompts sent to an engine, bridged or rendered, and why rendered.",
            ["how", "reason"],
            registry=self.registry,
        )
        self.differences = Counter(
            "gateway_message_differences",
            "Turns whose replayed history differed from the record in an accepted way, by kind.",
            ["kind"],
            registry=self.registry,
        )
        self.tokens = Counter(
            "gateway_tokens", "Prompt and completion tokens of recorded turns.", ["type"], registry=self.registry
        )
        self.errors = Counter("gateway_errors", "Error answers, by code.", ["code"], registry=self.registry)
        self.in_flight = Gauge(
            "gateway_turns_in_flight", "Turns that hold an engine.", ["engine"], registry=self.registry
        )
        self.sessions = Gauge("gateway_sessions", "Sessions with at least one turn.", registry=self.registry)
        self.turn_duration = Histogram(
            "gateway_turn_duration_seconds",
            "Time from the request to the recorded turn.",
            buckets=_DURATION_BUCKETS_S,
            registry=self.registry,
        )

    def text(self) -> bytes:
        """The exposition in Prometheus' text format."""
        return generate_latest(self.registry)
