"""The dashboard on training truth: do prompts extend what was sampled, why not, and what are logprobs worth."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from tools.boards.board import board, with_row
from tools.boards.panel import lines, number, rate, total

_LATER = 'reason!="first_turn"'
_BROKEN = f'how="rendered",{_LATER}'


def prefix_health() -> Dashboard:
    """Bridges and breaks, differences in what clients send back, and the evidence that turns have."""
    text = "Whether prompts extend what was sampled, why they do not, and what logprobs are worth."
    return _evidence(_history(_breaks(_now(board("prefix-health", "prefix health", text)))))


def _now(dashboard: Dashboard) -> Dashboard:
    broken = f"{rate('gateway_prompts_total', matchers=_BROKEN)} / {rate('gateway_prompts_total', matchers=_LATER)}"
    reused, prefix = (rate("gateway_prompt_prefix_tokens_total", matchers=m) for m in ('source="reused"', ""))
    inexact = rate("gateway_turn_distributions_total", matchers='logprobs_exact="false"')
    panels = [
        number(
            "Later turns that begin a new row",
            "Share of the turns after a session's first whose prompt was rendered in full: each ends a row.",
            "percentunit",
            (broken, ""),
            span=8,
        ),
        number(
            "Prompt tokens taken over",
            "Share of prompt tokens that are those of earlier turns, id for id.",
            "percentunit",
            (f"{reused} / {prefix}", ""),
            span=8,
        ),
        number(
            "Turns without exact logprobs",
            "Share of turns whose logprobs are not those of the distribution that they were sampled from.",
            "percentunit",
            (f"{inexact} / {rate('gateway_turn_distributions_total')}", ""),
            span=8,
        ),
    ]
    return with_row(dashboard, "Now", *panels)


def _breaks(dashboard: Dashboard) -> Dashboard:
    panels = [
        lines(
            "Prompts",
            "Bridged prompts extend what was sampled; rendered ones begin a row.",
            "reqps",
            (rate("gateway_prompts_total", "how"), "{{how}}"),
            stacked=True,
        ),
        lines(
            "Rendered prompts by reason",
            "Why prompts were rendered in full. first_turn is as it should be; history_edited and history_shortened "
            "are the agent's harness, bridge_… the renderer.",
            "reqps",
            (rate("gateway_prompts_total", "reason", 'how="rendered"'), "{{reason}}"),
        ),
        lines(
            "Prompt tokens",
            "Prompt tokens taken over from earlier turns, and those that were rendered anew.",
            "short",
            (rate("gateway_prompt_prefix_tokens_total", "source"), "{{source}}"),
            stacked=True,
        ),
        lines(
            "Bridge audits",
            "Certified bridges that were held against a full render. One that failed is used no more.",
            "reqps",
            (rate("gateway_bridge_audits_total", "result"), "{{result}}"),
            span=12,
        ),
        lines(
            "Bridge shapes",
            "Shapes of turns, by whether the renderer was proven to bridge them.",
            "short",
            (total("gateway_bridge_shapes", "state"), "{{state}}"),
            span=12,
        ),
    ]
    return with_row(dashboard, "Bridges and breaks", *panels)


def _history(dashboard: Dashboard) -> Dashboard:
    panels = [
        lines(
            "Differences by kind",
            "Answers that clients sent back otherwise than they got them, and that were accepted: the recorded tokens "
            "stand in the prompt.",
            "reqps",
            (rate("gateway_message_differences_total", "kind"), "{{kind}}"),
            span=12,
        ),
        lines(
            "Tokens of those answers",
            "Sampled tokens of the answers that came back so: what would be lost if they did not match.",
            "short",
            (rate("gateway_message_difference_tokens_total", "kind"), "{{kind}}"),
            span=12,
        ),
    ]
    return with_row(dashboard, "What clients send back", *panels)


def _evidence(dashboard: Dashboard) -> Dashboard:
    panels = [
        lines(
            "Turns by distribution",
            "What turns were sampled from, and whether their logprobs are exact for it.",
            "reqps",
            (
                rate("gateway_turn_distributions_total", "distribution, logprobs_exact"),
                "{{distribution}} exact={{logprobs_exact}}",
            ),
        ),
        lines(
            "Flags",
            "What was odd about recorded answers: tool calls that could not be read, answers cut at a stop …",
            "reqps",
            (rate("gateway_turn_flags_total", "flag"), "{{flag}}"),
        ),
        lines(
            "Side arrays missing",
            "Turns without a side array that --side-arrays asks for, by engine.",
            "reqps",
            (rate("gateway_side_arrays_missing_total", "array, engine"), "{{array}} {{engine}}"),
        ),
    ]
    return with_row(dashboard, "Evidence", *panels)
