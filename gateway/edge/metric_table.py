"""Every metric there is: one table, from which the exposition and `docs/metrics.md` are made, and which tests hold.

The sets of label values are those of the types that the values have.
"""

from collections.abc import Sequence
from typing import Literal, get_args

from gateway import __version__
from gateway.core.canon import DIFFERENCES
from gateway.core.health import HealthState
from gateway.core.pool import MoveReason
from gateway.core.reason import Reason
from gateway.core.resume import ResumeOutcome
from gateway.core.sampling import Distribution
from gateway.core.side_arrays import SIDE_ARRAYS
from gateway.core.types import CutReason, Flag, Status
from gateway.edge.metric_family import Family, Values
from gateway.errors import GatewayError
from gateway.render.certification import RESULTS, STATES
from gateway.wire import chat

Phase = Literal["decode", "match", "render", "queue", "engine", "put", "encode"]
"""A step of a call; all but `queue` and `engine` are the gateway's own work."""
Result = Literal["answered", "replayed", "refused", "failed", "left"]
"""What a call on a turn's route came to."""

DIALECTS: Values = (chat.NAME,)
PHASES: Values = get_args(Phase)
ABORTS: Values = ("client_gone", "infra", "cancelled")
"""How a turn ends that is aborted, of all the words of `EndedBy`."""
STATUSES: Values = get_args(Status)
HEALTH: Values = get_args(HealthState)
RANK = {"engine": None, "rank": None}
"""The labels of what is told of each rank."""

_PROMPTS = [("bridged", ""), *(("rendered", str(reason)) for reason in Reason)]
_STEPS_S = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    15,
    60,
    300,
    600,
)
_FIRST_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_BETWEEN_S = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 10)
_LAG_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


def codes(of: type[GatewayError] = GatewayError) -> Values:
    """Every code that an error answer can have."""
    below = (code for error in of.__subclasses__() if error.__module__ == of.__module__ for code in codes(error))
    return tuple(dict.fromkeys((of.code, *below)))


def _counter(
    name: str, unit: str, text: str, look: str, pairs: Sequence[Values] | None = None, **labels: Values | None
) -> Family:
    return Family(f"gateway_{name}_total", "counter", unit, text, look, labels, pairs)


def _gauge(name: str, unit: str, text: str, look: str, **labels: Values | None) -> Family:
    return Family(f"gateway_{name}", "gauge", unit, text, look, labels)


def _histogram(name: str, text: str, look: str, bounds: tuple[float, ...], **labels: Values | None) -> Family:
    return Family(f"gateway_{name}_seconds", "histogram", "seconds", text, look, labels, bounds=bounds)


CALLS = [
    _counter(
        "calls", "calls", "Calls on the routes of turns, each once, by what they came to.",
        "the share of `failed`; `left` that grows: clients whose patience is shorter than their answers take",
        dialect=DIALECTS, result=get_args(Result),
    ),
    _counter(
        "turns", "turns", "Recorded turns, complete or aborted.",
        "turns a second; the share of `aborted`",
        dialect=DIALECTS, status=STATUSES,
    ),
    _counter(
        "aborts", "turns", "Turns recorded as aborted, by how they ended.",
        "`client_gone`: harnesses with time limits; `infra`: engines that fail, what was sampled before a restart "
        "included; `cancelled`: deleted sessions, siblings of one that failed, the end of the gateway",
        reason=ABORTS,
    ),
    _counter(
        "retries", "calls", "Retries that an earlier call was to answer: joined while it ran, or replayed.",
        "what would have been sampled twice; many: a time limit below what answers take",
        outcome=("joined", "replayed"),
    ),
    _counter(
        "errors", "answers", "Error answers on all routes, by code.",
        "which fault it is; `engine_protocol_error` and `ledger_error` should never be there",
        code=codes(),
    ),
    _counter(
        "turn_flags", "turns", "What was odd about the answers of recorded turns.",
        "`malformed_tool_call` that grows: the policy unlearns its format (docs/parsing.md)",
        flag=get_args(Flag),
    ),
    _counter(
        "turn_distributions", "turns",
        "Recorded turns by what they were sampled from, and whether their logprobs are exact.",
        '`logprobs_exact="false"` in what is trained: raw logprobs, or truncated sampling (docs/sampling.md)',
        distribution=get_args(Distribution), logprobs_exact=("true", "false"),
    ),
    _counter(
        "side_arrays_missing", "turns", "Turns without a side array that was wanted.",
        "engines that were started without what makes it",
        array=SIDE_ARRAYS, engine=None,
    ),
]  # fmt: skip
PREFIXES = [
    _counter(
        "prompts", "turns", "Prompts of recorded turns, bridged or rendered, and why rendered.",
        "every reason but `first_turn` begins a new row amid a conversation (docs/rows.md)",
        _PROMPTS, how=("bridged", "rendered"), reason=("", *map(str, Reason)),
    ),
    _counter(
        "prompt_prefix_tokens", "tokens",
        "Prompt tokens of recorded turns: reused from earlier turns, or rendered anew.",
        "the share of `reused`, which falls when prefixes break",
        source=("reused", "rendered"),
    ),
    _counter(
        "message_differences", "messages", "Differences accepted in replayed answers, by kind.",
        "what a harness does to its history (docs/architecture.md)",
        kind=tuple(DIFFERENCES),
    ),
    _counter(
        "message_difference_tokens", "tokens", "Sampled tokens of the answers that were replayed so.",
        "how much of the training data hangs on that",
        kind=tuple(DIFFERENCES),
    ),
    _counter(
        "bridge_audits", "turns", "Bridges held against a full render.",
        "any that `failed`: a template that does other things than it seemed to",
        result=RESULTS,
    ),
    _gauge(
        "bridge_shapes", "shapes", "Shapes of turns, by whether they may be bridged.",
        "`refused` and `revoked`: turns of these are rendered in full",
        state=STATES,
    ),
]  # fmt: skip
TOKENS = [
    _counter(
        "tokens", "tokens", "Prompt, completion and overshoot tokens of recorded turns.",
        "tokens a second; `overshoot` is sampled beyond a stop string, and thrown away",
        type=("prompt", "completion", "overshoot"),
    ),
    _gauge(
        "sessions", "sessions", "Sessions that the process holds, those in their first call included.",
        "sessions that nobody deletes",
    ),
    _gauge(
        "session_turns", "turns", "Turns of the sessions that are held.",
        "what memory grows with",
    ),
    _gauge(
        "session_tokens", "tokens", "What these turns added: rendered prompt tokens and sampled ones.",
        "what memory grows with",
    ),
]  # fmt: skip
TIMES = [
    _histogram(
        "time_to_first_token", "From a call's arrival to the first id that an engine sampled for it.",
        "what an agent waits for: the body, the prompt, the queue and the prefill", _FIRST_S,
    ),
    _histogram(
        "inter_token", "From one event of an engine to the next, shared among its ids, each of which counts.",
        "how fast engines sample, be the answer streamed or not; a client that reads too slowly shows here, too",
        _BETWEEN_S,
    ),
    _histogram(
        "phase", "What the steps of calls took.",
        "the gateway's own overhead: the sum of all but `queue` and `engine`", _STEPS_S, phase=PHASES,
    ),
    _histogram(
        "event_loop_lag", "By how much a task that sleeps for a tenth of a second wakes too late.",
        "whether something holds up every call of the process", _LAG_S,
    ),
]  # fmt: skip
RANKS = [
    _gauge(
        "rank_up", "0 or 1", "Whether a rank takes turns.", "ranks that are down, draining, or not known yet", **RANK,
    ),
    _gauge(
        "rank_state", "0 or 1", "The health of a rank: 1 for the state that it is in.",
        "why a rank is not up: `down` is not there, or fails; where it is `up` all the same, it drains "
        "(docs/engines.md)",
        **RANK, state=HEALTH,
    ),
    _gauge("turns_in_flight", "turns", "Turns under way on a rank.", "load, and whether it is even", **RANK),
    _gauge("queue_turns", "turns", "Turns that wait for a rank.", "too few engines, or too low bounds", **RANK),
    _gauge(
        "rank_resident_tokens", "tokens", "What sessions take up in a rank's KV cache, idle ones too.",
        "how full caches are, beside the capacity", **RANK,
    ),
    _gauge(
        "rank_capacity_tokens", "tokens", "What a rank's KV cache holds; nothing where the engine does not say.",
        "what the resident tokens are held against", **RANK,
    ),
    _counter(
        "session_moves", "sessions", "Sessions that went to another rank, and why.",
        "`overloaded` that grows: affinity is lost to load", reason=get_args(MoveReason),
    ),
    _counter(
        "reprefill_tokens", "tokens", "Tokens that moves had to prefill again.",
        "what moves cost", reason=get_args(MoveReason),
    ),
    _counter(
        "cuts", "calls", "Calls of engines that ended before their answers did.",
        "engines that are lost or stall; `pause` and `removed` were wanted (docs/resume.md)",
        reason=get_args(CutReason),
    ),
    _counter(
        "resumes", "answers", "What became of answers that were cut, each time that they were.",
        "`gave_up`: these failed", outcome=get_args(ResumeOutcome),
    ),
    _counter(
        "resumed_tokens", "tokens", "Sampled tokens that calls went on from.", "what need not be sampled twice",
    ),
]  # fmt: skip
POLICY = [
    _gauge("policy_ordinal", "announcements", "Ordinal of the policy announced last.", "a trainer that stands still"),
    _gauge(
        "policy_staleness", "versions", "Versions newer than the oldest that sampled a turn in flight.",
        "how far off policy the turns under way are",
    ),
    _gauge("paused", "0 or 1", "Whether turns are held.", "a pause that nobody ends"),
    _gauge("turns_held", "turns", "Turns that wait for a rank while turns are held.", "what a pause keeps waiting"),
    _counter("pause_seconds", "seconds", "For how long turns were held.", "what weight syncs cost"),
]  # fmt: skip
PROCESS = [
    _gauge("streams", "streams", "Streams that clients read.", "load"),
    _gauge(
        "stream_buffered_bytes", "bytes", "What clients have not taken of what was said.",
        "clients that read too slowly",
    ),
    _gauge(
        "stream_buffered_bytes_max", "bytes", "What the client furthest behind has not taken.",
        "one that stands still, near `--stream-buffer-bytes`",
    ),
    _counter("log_lines_dropped", "lines", "Log lines that nobody took.", "a full or closed pipe on standard error"),
    _gauge("build_info", "always 1", "The version that runs.", "what a fleet runs", version=(__version__,)),
]  # fmt: skip

CHAPTERS: dict[str, Sequence[Family]] = {
    "Calls and turns": CALLS,
    "Prefixes": PREFIXES,
    "Tokens and sessions": TOKENS,
    "Time": TIMES,
    "Engines and ranks": RANKS,
    "Policy and pauses": POLICY,
    "Streams and process": PROCESS,
}
TABLE = {family.name: family for families in CHAPTERS.values() for family in families}
