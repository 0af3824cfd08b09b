"""The report as people read it."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.doctor.report import Report

_ROLES = {"assistant": "an answer", "user": "a user's message", "tool": "a tool's result", "system": "a system message"}
_ENDED = {"timed_out": "ran for longer than --timeout-s", "interrupted": "was interrupted"}
_MOST_ROWS = 12
"""Of a table; the JSON has all."""
_COLOURS = {"keeps": "bold green", "breaks": "bold red", "restarts": "bold red"}


def show(console: Console, report: Report) -> None:
    """Print what was found, the verdict last."""
    told: Any = report.as_object()
    _counts(console, told)
    if told["breaks"]:
        console.print(_table("where the prefix breaks", ("turn", "after", "reason", "tokens", "what"), _breaks(told)))
    if told["accepted"]:
        columns = ("accepted difference", "answers", "message", "before", "after")
        rows = [
            [one["kind"], one["answers"], f"{one['message']} in turn {one['turn']}", one["before"], one["after"]]
            for one in told["accepted"]
        ]
        console.print(_table("what is sent back otherwise, and is known all the same", columns, rows))
    if told["side_lines"]:
        console.print(_side_lines(told))
    for error in told["errors"]:
        status = error["status"] or "left before an answer"
        console.print(f"{error['calls']}× {status} {error['path']}: {error['message']}", style="yellow", markup=False)
    _ended(console, told)
    console.print(f"{told['summary']}.", style=_COLOURS.get(told["verdict"], "bold yellow"), markup=False)


def _counts(console: Console, told: Any) -> None:
    share = "none" if told["reused_share"] is None else f"{told['reused_share']:.1%}"
    calls = ", ".join(f"{number} {name}" for name, number in told["calls"].items() if number) or "none"
    aborted = sum(told["aborted_turns"].values())
    for name, value in (
        ("calls", f"{calls}; marked as retries: {told['retries']}"),
        ("turns", f"{told['turns']}, {len(told['main_line'])} of them on the main line; aborted: {aborted}"),
        ("answers dropped", ", ".join(f"turn {number}" for number in told["dropped_answers"]) or "none"),
        ("rows", told["rows"]),
        ("prompt tokens", f"{told['prompt_tokens']}, {told['reused_tokens']} taken over ({share})"),
    ):
        console.print(f"{name + ':':<17}{value}", markup=False, highlight=False)
    if told["tools"] and told["tools"]["left_alone"]:
        names = ", ".join(told["tools"]["left_alone"])
        console.print(f"not called, since they may change something (--tool NAME does): {names}", markup=False)


def _breaks(told: Any) -> list[list[object]]:
    rows: list[list[object]] = []
    for one in told["breaks"]:
        tokens = f"{one['rendered_tokens']} ({one['reprefilled_tokens']} read again)"
        whats = [_above(change) for change in one["above"]] + [_within(change) for change in one["messages"]]
        why = one["reason"] if one["by"] == "harness" else f"{one['reason']}, by the renderer"
        rows.append([one["turn"], one["after_turn"], why, tokens, "\n".join(whats)])
    return rows


def _above(change: Any) -> str:
    return f"{change['what']}: {_arrow(change)}"


def _within(change: Any) -> str:
    parts = f" ({', '.join(change['what'])})" if change["what"] else ""
    return f"{change['message']}: {_ROLES[change['role']]} was {change['change']}{parts}: {_arrow(change)}"


def _arrow(change: Any) -> str:
    return f"{_quoted(change['before'])} → {_quoted(change['after'])}"


def _quoted(text: str | None) -> str:
    return "nothing" if text is None else f"“{text}”"


def _side_lines(told: Any) -> Table:
    rows = [
        [line["turn"], line["turns"], _beginning(line), line["tools"], line["prompt_tokens"], line["asks"]]
        for line in told["side_lines"]
    ]
    return _table("beside the main line", ("turn", "turns", "begins", "tools", "prompt tokens", "asks"), rows)


def _beginning(line: Any) -> str:
    where = "anew" if line["after_turn"] is None else f"after turn {line['after_turn']}, {line['reason']}"
    return where if line["main_line_went_on"] else f"{where}; the main line had ended"


def _ended(console: Console, told: Any) -> None:
    agent = told["agent"]
    if agent["ended"] != "exited":
        console.print(f"the agent was ended: it {_ENDED[agent['ended']]}", style="bold yellow")
    elif agent["exit_code"]:
        console.print(f"the agent failed: exit code {agent['exit_code']}", style="bold yellow")


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows[:_MOST_ROWS]:
        table.add_row(*("" if cell is None else Text(str(cell)) for cell in row))
    if len(rows) > _MOST_ROWS:
        table.caption, table.caption_justify = f"and {len(rows) - _MOST_ROWS} more: --json has them", "left"
    return table
