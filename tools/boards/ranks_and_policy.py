"""The dashboard on engines and weights: which ranks are well and loaded, what is cut, and which policy samples."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from tools.boards.board import board, with_row
from tools.boards.panel import lines, number, of, rate, total

_RANK, _EACH = "engine, rank", "{{engine}} #{{rank}}"


def ranks_and_policy() -> Dashboard:
    """Health and load of each rank, cuts and moves, pauses and policies."""
    text = "Which ranks are well, how loaded they are, what was cut or moved, and which policy samples."
    return _policy(_cuts(_load(_now(board("ranks-and-policy", "ranks and policy", text)))))


def _now(dashboard: Dashboard) -> Dashboard:
    panels = [
        number(
            "Ranks",
            "Ranks by what is known of them now.",
            "short",
            (total("gateway_rank_state", "state"), "{{state}}"),
            span=8,
        ),
        number("Turns in flight", "Turns that engines are at.", "short", (total("gateway_turns_in_flight"), "")),
        number("Turns waiting", "Turns that wait for a rank.", "short", (total("gateway_queue_turns"), "")),
        number(
            "Policy", "Ordinal of the policy announced last.", "short", (f"max ({of('gateway_policy_ordinal')})", "")
        ),
        number("Paused", "Gateways that hold their turns.", "short", (total("gateway_paused"), "")),
    ]
    return with_row(dashboard, "Now", *panels)


def _load(dashboard: Dashboard) -> Dashboard:
    share = f"{total('gateway_rank_resident_tokens', _RANK)} / {total('gateway_rank_capacity_tokens', _RANK)}"
    panels = [
        lines(
            "Ranks up",
            "1 where a rank takes turns.",
            "short",
            (f"min by ({_RANK}) ({of('gateway_rank_up')})", _EACH),
            most=1,
        ),
        lines("Turns in flight", "Turns that a rank is at.", "short", (total("gateway_turns_in_flight", _RANK), _EACH)),
        lines(
            "Turns waiting",
            "Turns that wait for a rank, or for any.",
            "short",
            (total("gateway_queue_turns", _RANK), _EACH),
        ),
        lines(
            "KV cache taken up",
            "Tokens of sessions that stay on a rank, idle ones too, as a share of its KV cache. Above 1 it computes "
            "again what it had: see --resident-share.",
            "percentunit",
            (share, _EACH),
        ),
        lines(
            "Resident tokens",
            "Tokens of the sessions that stay on a rank, idle ones too.",
            "short",
            (total("gateway_rank_resident_tokens", _RANK), _EACH),
        ),
        lines(
            "KV cache",
            "Tokens that a rank's KV cache can hold.",
            "short",
            (total("gateway_rank_capacity_tokens", _RANK), _EACH),
        ),
    ]
    return with_row(dashboard, "Load", *panels)


def _cuts(dashboard: Dashboard) -> Dashboard:
    panels = [
        lines(
            "Cuts by reason",
            "Calls of engines that ended before their answers did.",
            "reqps",
            (rate("gateway_cuts_total", "reason"), "{{reason}}"),
        ),
        lines(
            "Cut answers",
            "What became of them: carried on, made anew, finished as they were, or given up.",
            "reqps",
            (rate("gateway_resumes_total", "outcome"), "{{outcome}}"),
        ),
        lines(
            "Tokens carried on from",
            "Sampled tokens of cut answers that were kept.",
            "short",
            (rate("gateway_resumed_tokens_total"), "tokens"),
        ),
        lines(
            "Moves by reason",
            "Sessions that went to another rank than the one that has their prefix.",
            "reqps",
            (rate("gateway_session_moves_total", "reason"), "{{reason}}"),
            span=12,
        ),
        lines(
            "Tokens prefilled again",
            "What those moves cost.",
            "short",
            (rate("gateway_reprefill_tokens_total", "reason"), "{{reason}}"),
            span=12,
        ),
    ]
    return with_row(dashboard, "Cuts and moves", *panels)


def _policy(dashboard: Dashboard) -> Dashboard:
    panels = [
        lines(
            "Policy ordinal",
            "How many policies were announced. Gateways of one fleet should agree.",
            "short",
            (total("gateway_policy_ordinal", "instance"), "{{instance}}"),
        ),
        lines(
            "Staleness",
            "Policies newer than the oldest that has sampled a turn in flight.",
            "short",
            (f"max by (instance) ({of('gateway_policy_staleness')})", "{{instance}}"),
        ),
        lines(
            "Share of time paused",
            "How much of the time turns were held.",
            "percentunit",
            (rate("gateway_pause_seconds_total", "instance"), "{{instance}}"),
            most=1,
        ),
        lines(
            "Paused",
            "1 where turns are held.",
            "short",
            (total("gateway_paused", "instance"), "{{instance}}"),
            span=12,
            most=1,
        ),
        lines(
            "Turns held",
            "Turns that wait for the end of a pause.",
            "short",
            (total("gateway_turns_held", "instance"), "{{instance}}"),
            span=12,
        ),
    ]
    return with_row(dashboard, "Policy and pauses", *panels)
