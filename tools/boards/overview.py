"""The dashboard an operator opens first: is it well, how much is done, and how long does that take."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from tools.boards.board import board, with_row
from tools.boards.panel import lines, number, of, quantile, quantiles, rate, total

_OURS = 'phase!~"queue|engine"'
"""The phases of a turn that the gateway itself takes time for."""


def overview() -> Dashboard:
    """Health, turns, time and what the process holds."""
    dashboard = board("overview", "overview", "Whether gateways are well, how much they do, and how long it takes.")
    return _process(_time(_turns(_now(dashboard))))


def _now(dashboard: Dashboard) -> Dashboard:
    calls = "gateway_calls_total"
    failed = " / ".join((rate(calls, matchers='result="failed"'), rate(calls)))
    panels = [
        number("Gateways up", "Targets that could be scraped last time.", "short", (total("up"), "")),
        number("Ranks up", "Ranks that take turns now, over all engines.", "short", (total("gateway_rank_up"), "")),
        number("Sessions held", "Sessions that the processes hold.", "short", (total("gateway_sessions"), "")),
        number("Turns", "Recorded turns per second.", "reqps", (rate("gateway_turns_total"), "")),
        number("Calls failed", "Share of the calls that failed by no agent's fault.", "percentunit", (failed, "")),
        number(
            "Versions",
            "How many gateways run which version.",
            "short",
            (total("gateway_build_info", "version"), "{{version}}"),
        ),
    ]
    return with_row(dashboard, "Now", *panels)


def _turns(dashboard: Dashboard) -> Dashboard:
    panels = [
        lines(
            "Calls by result",
            "Each call of a turn's route once: answered, replayed from a recorded turn, refused (the caller's fault), "
            "failed (an engine's, the renderer's or our fault), or left by its client.",
            "reqps",
            (rate("gateway_calls_total", "result"), "{{result}}"),
            stacked=True,
        ),
        lines(
            "Turns by dialect",
            "Recorded turns, by the API that the agent speaks and by what became of them.",
            "reqps",
            (rate("gateway_turns_total", "dialect, status"), "{{dialect}} {{status}}"),
            stacked=True,
        ),
        lines(
            "Errors by code",
            "Error answers, as agents see them. The log has a line for each.",
            "reqps",
            (rate("gateway_errors_total", "code"), "{{code}}"),
        ),
        lines(
            "Tokens by type",
            "Tokens of recorded turns: of prompts, sampled, and sampled beyond a stop and discarded (overshoot).",
            "short",
            (rate("gateway_tokens_total", "type"), "{{type}}"),
        ),
        lines(
            "Aborts by reason",
            "Turns recorded as aborted. Long answers are aborted more often than short ones, which biases lengths.",
            "reqps",
            (rate("gateway_aborts_total", "reason"), "{{reason}}"),
        ),
        lines(
            "Retries",
            "Marked retries that joined a turn in flight, or got the answer of a recorded one.",
            "reqps",
            (rate("gateway_retries_total", "outcome"), "{{outcome}}"),
        ),
    ]
    return with_row(dashboard, "Turns", *panels)


def _time(dashboard: Dashboard) -> Dashboard:
    ours = f"{rate('gateway_phase_seconds_sum', matchers=_OURS)} / {rate('gateway_turns_total')}"
    panels = [
        lines(
            "Time to first token",
            "From the call's arrival to the first token that the engine sampled for it.",
            "s",
            *quantiles("gateway_time_to_first_token_seconds"),
        ),
        lines(
            "Time between tokens",
            "Between one sampled token and the next, as they reach the gateway.",
            "s",
            *quantiles("gateway_inter_token_seconds"),
        ),
        lines(
            "Our own overhead",
            "Time that the gateway itself takes for a turn, on average: all phases but waiting for a rank and for the "
            "engine.",
            "s",
            (ours, "per turn"),
        ),
        lines(
            "Phases",
            "What nine in ten turns need at most for each phase.",
            "s",
            quantile(0.9, "gateway_phase_seconds", "phase"),
            span=12,
        ),
        lines(
            "Wait for a rank",
            "How long turns waited before a rank took them.",
            "s",
            *quantiles("gateway_phase_seconds", 'phase="queue"'),
            span=12,
        ),
    ]
    return with_row(dashboard, "Time", *panels)


def _process(dashboard: Dashboard) -> Dashboard:
    panels = [
        lines(
            "Event loop lag",
            "How late the process' event loop runs what is due. Everything else there is late by as much.",
            "s",
            *quantiles("gateway_event_loop_lag_seconds"),
        ),
        lines(
            "Held",
            "Sessions and turns that the processes hold in memory.",
            "short",
            (total("gateway_sessions", "instance"), "sessions {{instance}}"),
            (total("gateway_session_turns", "instance"), "turns {{instance}}"),
        ),
        lines(
            "Tokens held",
            "Recorded tokens that the processes hold in memory: they grow until sessions are deleted.",
            "short",
            (total("gateway_session_tokens", "instance"), "{{instance}}"),
        ),
        lines(
            "Streams",
            "Streams that clients read at the moment.",
            "short",
            (total("gateway_streams", "instance"), "{{instance}}"),
        ),
        lines(
            "Bytes that clients have not read",
            "What waits for clients of streams, in all and of the slowest. At --stream-buffer-bytes the engine waits.",
            "bytes",
            (total("gateway_stream_buffered_bytes", "instance"), "all {{instance}}"),
            (f"max by (instance) ({of('gateway_stream_buffered_bytes_max')})", "slowest {{instance}}"),
        ),
        lines(
            "Log lines dropped",
            "Lines that nobody took from standard error in time.",
            "short",
            (rate("gateway_log_lines_dropped_total", "instance"), "{{instance}}"),
        ),
    ]
    return with_row(dashboard, "Process", *panels)
