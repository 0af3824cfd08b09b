"""What Prometheus sees. Labels are bounded: never a session, a request or a key."""

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from prometheus_client import CollectorRegistry, generate_latest

from gateway import __version__
from gateway.core.health import HealthState
from gateway.core.pause import Scope
from gateway.core.side_arrays import SIDE_ARRAYS
from gateway.core.turn import Turn
from gateway.edge.engine_label import EngineLabels
from gateway.edge.log import dropped_lines
from gateway.edge.metric_kinds import Bare, Counted, Samples, Shown, Timed, Weighted, alone, of_each
from gateway.edge.metric_table import HEALTH, TABLE, Phase
from gateway.render.certification import STATES, Audits, Certifications


@dataclass(frozen=True, slots=True)
class RankView:
    """How a rank is now."""

    serves: bool
    """Whether it takes turns."""
    state: HealthState
    in_flight: int
    waiting: int
    resident_tokens: int
    capacity_tokens: int | None
    """``None`` where its engine does not say."""


class Metrics:
    """The metrics of one gateway; each has its own registry, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.engine_labels = EngineLabels()
        self._ranks: dict[tuple[str, str], Callable[[], RankView]] = {}
        self.calls = self._counted("calls")
        self.turns = self._counted("turns")
        self.aborts = self._counted("aborts")
        self.retries = self._counted("retries")
        self.errors = self._counted("errors")
        self.flags = self._counted("turn_flags")
        self.distributions = self._counted("turn_distributions")
        self.missing_arrays = self._counted("side_arrays_missing")
        self.prompts = self._counted("prompts")
        self.prefix_tokens = self._counted("prompt_prefix_tokens")
        self.differences = self._counted("message_differences")
        self.difference_tokens = self._counted("message_difference_tokens")
        self.tokens = self._counted("tokens")
        self.moves = self._counted("session_moves")
        self.reprefill = self._counted("reprefill_tokens")
        self.cuts = self._counted("cuts")
        self.resumes = self._counted("resumes")
        self.resumed_tokens = self._counted("resumed_tokens")
        self.first_token = self._timed("time_to_first_token")
        self.loop_lag = self._timed("event_loop_lag")
        self.phases = self._timed("phase")
        self.between_tokens = Weighted(TABLE["gateway_inter_token_seconds"])
        self.registry.register(self.between_tokens)
        self._show("log_lines_dropped_total", alone(dropped_lines))
        self._show("build_info", lambda: [((__version__,), 1)])
        self._show_ranks()

    def took(self, phase: Phase, seconds: float) -> None:
        """A step of a call took so long."""
        self.phases.observe(seconds, phase)

    def show_bridges(self, certifications: Callable[[], Iterable[Certifications[Any]]], audits: Audits) -> None:
        """Show what is known of bridges, whenever it is asked for."""

        def shapes() -> dict[str, int]:
            counts = Counts[str](dict.fromkeys(STATES, 0))
            for known in certifications():
                counts.update(cast("dict[str, int]", known.shapes()))
            return counts

        self._show("bridge_audits_total", of_each(lambda: cast("dict[str, int]", audits.counts())))
        self._show("bridge_shapes", of_each(shapes))

    def show_streams(self, buffered_bytes: Callable[[], Sequence[int]]) -> None:
        """Show what waits for the client of each open stream, whenever it is asked for."""
        self._show("streams", alone(lambda: len(buffered_bytes())))
        self._show("stream_buffered_bytes", alone(lambda: sum(buffered_bytes())))
        self._show("stream_buffered_bytes_max", alone(lambda: max(buffered_bytes(), default=0)))

    def show_sessions(self, sessions: Callable[[], int], turns: Callable[[], int], tokens: Callable[[], int]) -> None:
        """Show how many sessions are held, and what they hold; each is to be known without counting."""
        self._show("sessions", alone(sessions))
        self._show("session_turns", alone(turns))
        self._show("session_tokens", alone(tokens))

    def show_pauses(
        self, held: Callable[[], Scope | None], held_s: Callable[[], float], waiting: Callable[[], int]
    ) -> None:
        """Show whether turns are held, for how long they were, and how many wait meanwhile."""
        self._show("paused", alone(lambda: held() is not None))
        self._show("pause_seconds_total", alone(held_s))
        self._show("turns_held", alone(lambda: waiting() if held() else 0))

    def show_policy(self, ordinal: Callable[[], int], staleness: Callable[[], Iterable[int]]) -> None:
        """Show which announced policy samples now, and how old the oldest is that has sampled what is under way."""
        self._show("policy_ordinal", alone(ordinal))
        self._show("policy_staleness", alone(lambda: max(staleness(), default=0)))

    def show_rank(self, engine: str, rank: int, view: Callable[[], RankView]) -> None:
        """Show how a rank of the engine of that URL is, whenever it is asked for."""
        label = self.engine_labels.of(engine)
        self._ranks[label, str(rank)] = view
        for array in SIDE_ARRAYS:
            self.missing_arrays.begin(array, label)

    def forget_rank(self, engine: str, rank: int) -> None:
        """Show nothing of a rank any more, nor of its engine when it was the last."""
        label = self.engine_labels.of(engine)
        self._ranks.pop((label, str(rank)), None)
        if not any(of == label for of, _ in self._ranks):
            self.forget_engine(engine)

    def forget_engine(self, engine: str) -> None:
        """Show nothing of an engine any more. May be repeated: a call that had it may have told of it since."""
        self.missing_arrays.forget(engine=self.engine_labels.of(engine))
        self.engine_labels.forget(engine)

    def _show_ranks(self) -> None:
        def shown(value: Callable[[RankView], float | None]) -> Samples:
            return lambda: [(name, told) for name, view in self._ranks.items() if (told := value(view())) is not None]

        def states() -> Iterator[tuple[tuple[str, ...], float]]:
            for name, view in self._ranks.items():
                state = view().state
                yield from (((*name, each), each == state) for each in HEALTH)

        self._show("rank_up", shown(lambda rank: rank.serves))
        self._show("rank_state", states)
        self._show("turns_in_flight", shown(lambda rank: rank.in_flight))
        self._show("queue_turns", shown(lambda rank: rank.waiting))
        self._show("rank_resident_tokens", shown(lambda rank: rank.resident_tokens))
        self._show("rank_capacity_tokens", shown(lambda rank: rank.capacity_tokens))

    def _show(self, name: str, samples: Samples) -> None:
        self.registry.register(Shown(TABLE[f"gateway_{name}"], samples))

    def _counted(self, name: str) -> Counted:
        return Counted(TABLE[f"gateway_{name}_total"], self.registry)

    def _timed(self, name: str) -> Timed:
        return Timed(TABLE[f"gateway_{name}_seconds"], self.registry)

    def count(self, turn: Turn, dialect: str) -> None:
        """Count one recorded turn, of a call in that dialect."""
        self.turns.inc(dialect, turn.status)
        if turn.status == "aborted":
            self.aborts.inc(turn.ended_by)
        self.distributions.inc(turn.sampling.distribution, str(turn.sampling.logprobs_exact).lower())
        self.prompts.inc(turn.how, turn.reason or "")
        self.prefix_tokens.inc("reused", by=turn.reused_tokens)
        self.prefix_tokens.inc("rendered", by=turn.prompt_length - turn.reused_tokens)
        self.tokens.inc("prompt", by=turn.prompt_length)
        self.tokens.inc("completion", by=len(turn.completion.ids))
        self.tokens.inc("overshoot", by=turn.completion.overshoot_tokens)
        for flag in turn.flags:
            self.flags.inc(flag)
        for kind, found in turn.differences.items():
            self.differences.inc(kind, by=found.messages)
            self.difference_tokens.inc(kind, by=found.tokens)

    def text(self) -> bytes:
        """The exposition in Prometheus' text format."""
        return generate_latest(cast(CollectorRegistry, Bare(self.registry)))
