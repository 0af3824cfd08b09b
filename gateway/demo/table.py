"""The table of the demo, and its verdict."""

from collections.abc import Sequence
from itertools import pairwise

from rich import box
from rich.console import Console
from rich.table import Table

from gateway.demo.evidence import Line

_MEASURE = (
    "re-tok.: the same messages through template and tokenizer again. moved: recorded ids that are not at "
    "their position; lost: at none, after aligning. Totals of both count each row once."
)


def show(console: Console, lines: Sequence[Line], broken: Sequence[str]) -> None:
    """Print a line for each turn, the totals, what is `broken`, and what it all means."""
    ends = [line for line, after in pairwise([*lines, None]) if line and not (after and after.bridged)]
    sampled, bridged = sum(line.turn["completion_tokens"] for line in lines), sum(line.bridged for line in lines)
    prompts, trained = sum(line.turn["start"] for line in lines), sum(line.trained for line in lines)
    moved, lost, ids = sum(e.moved for e in ends), sum(e.lost for e in ends), sum(e.turn["end"] for e in ends)
    if lines:
        console.print(_table(lines, [len(lines), prompts, sampled, f"{bridged} bridged", "", trained, moved, lost]))
        console.print(_MEASURE, style="dim")
    for fault in broken:
        console.print(f"broken: {fault}", style="red", markup=False)
    kept = "An invariant is broken" if broken else f"All {sampled} sampled tokens are trained once, as sampled"
    console.print(
        f"{kept}; {bridged} of {len(lines)} prompts extend what was sampled; "
        f"re-tokenizing would have lost {lost} of {ids} ids and moved {moved}.",
        style="bold red" if broken else "bold green",
    )


def _table(lines: Sequence[Line], totals: Sequence[object]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_footer=True, show_edge=False, padding=0)
    table.add_column("\nsession", "total", no_wrap=True)
    headers = ["\nturn", "prompt\nids", "sampled\nids", "prompt\nmade by", "\nrank", "trained\nids"]
    headers += ["re-tok.\nmoved", "re-tok.\nlost"]
    for header, total in zip(headers, totals, strict=True):
        table.add_column(header, str(total), justify="left" if "made" in header else "right", no_wrap=True)
    for line, after in pairwise([*lines, None]):
        assert line is not None
        how = "bridge" if line.bridged else f"render: {line.turn['reason']}"
        lengths = line.turn["start"], line.turn["completion_tokens"]
        cells = line.number, *lengths, how, line.turn["rank"], line.trained, line.moved, line.lost
        table.add_row(line.session, *map(str, cells), end_section=bool(after and after.session != line.session))
    return table
