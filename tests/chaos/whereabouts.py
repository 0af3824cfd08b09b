"""Where the tasks of this loop stand, for who wants to know why something has no end."""

import asyncio
from collections import Counter
from typing import Any


def whereabouts() -> list[str]:
    """How many tasks wait at each place, through all that they await; the most frequent first."""
    return [f"{count} × {place}" for place, count in Counter(map(_place, asyncio.all_tasks())).most_common()]


def _place(task: "asyncio.Task[object]") -> str:
    steps: list[str] = []
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = next((found for kind in ("cr", "gi", "ag") if (found := getattr(awaited, f"{kind}_frame", None))), None)
        name = getattr(awaited, "__qualname__", type(awaited).__name__)
        steps.append(name if frame is None else f"{name}:{frame.f_lineno}")
        below = (getattr(awaited, name, None) for name in ("cr_await", "gi_yieldfrom", "ag_await"))
        awaited = next((found for found in below if found is not None), None)
    return " > ".join(steps)
