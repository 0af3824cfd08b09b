"""Sessions as tables: a line for each, or one by itself."""

import time
from collections.abc import Sequence
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.core.types import JsonObject

_COLUMNS = ("session", "group", "status", "reward", "turns", "aborted", "in flight", "prompt", "completion", "made")


def show_all(found: Sequence[JsonObject]) -> None:
    """Print what ``GET /sessions`` answers, a line for each."""
    table = Table(box=None, pad_edge=False)
    for at, column in enumerate(_COLUMNS):
        table.add_column(column, justify="right" if 2 < at < len(_COLUMNS) - 1 else "left", no_wrap=at == 0)
    for session in found:
        table.add_row(*map(Text, _row(dict(session))))
    Console().print(table)


def show_one(session: JsonObject) -> None:
    """Print what ``GET /sessions/{sid}`` answers, a line for each field that says something."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in session.items():
        if said := _said(name, value):
            table.add_row(Text(name), Text(said))
    Console().print(table)


def _row(session: dict[str, Any]) -> list[str]:
    names = ("turns", "aborted_turns", "turns_in_flight", "prompt_tokens", "completion_tokens")
    reward = "" if session["reward"] is None else f"{session['reward']:g}"
    first = [session["session_id"], session["group_id"] or "", session["status"], reward]
    return [*first, *(str(session[name]) for name in names), _moment(session["created_s"])]


def _said(name: str, value: object) -> str:
    if name == "created_s" and isinstance(value, int | float):
        return _moment(value)
    if isinstance(value, dict):
        told = {key: one for key, one in value.items() if one is not None}
        return orjson.dumps(told).decode() if told else ""
    return "" if value is None else str(value)


def _moment(since_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since_s))
