"""Engines as a table: a line for each rank."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from gateway.client.shapes import EngineState, RankState

_COLUMNS = ("engine", "rank", "health", "in flight", "waiting", "sessions", "resident", "capacity", "kv", "models")
_COLOURS = {"up": "green", "suspect": "yellow", "probing": "yellow", "down": "bold red"}


def show(engines: Sequence[EngineState]) -> None:
    """Print them."""
    table = Table(box=None, pad_edge=False)
    for at, column in enumerate(_COLUMNS):
        table.add_column(column, justify="right" if 2 < at < len(_COLUMNS) - 1 or at == 1 else "left", no_wrap=at == 0)
    for engine in engines:
        for rank in engine["ranks"]:
            table.add_row(*_row(engine, rank))
    console = Console()
    console.print(table)
    for engine in engines:
        if not engine["answers"]:
            console.print(f"{engine['url']} does not answer: {engine['trouble']}", soft_wrap=True)


def _row(engine: EngineState, rank: RankState) -> list[str]:
    health = f"[{_COLOURS.get(rank['health'], '')}]{rank['health']}[/]" + (" (draining)" if rank["draining"] else "")
    counts = [str(rank[name]) for name in ("in_flight", "waiting", "sessions", "resident_tokens")]
    capacity = "?" if rank["capacity_tokens"] is None else str(rank["capacity_tokens"])
    usage = "?" if rank["kv_usage"] is None else f"{rank['kv_usage']:.0%}"
    return [engine["url"], str(rank["rank"]), health, *counts, capacity, usage, ", ".join(engine["models"])]
