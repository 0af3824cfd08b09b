"""What an audit has to say: of each row, and of all."""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.console import Console

from gateway.audit.gap import Gap
from gateway.audit.scoring import Finding
from gateway.core.types import JsonObject

_LARGEST = sys.float_info.max
"""Of gaps: what is above it is none."""


@dataclass(slots=True)
class Report:
    """The rows so far."""

    rows: list[JsonObject] = field(default_factory=list)
    gap: Gap = field(default_factory=Gap)
    apart: Counter[str] = field(default_factory=Counter)
    troubled: int = 0
    """Rows that could not be scored, or not wholly."""

    def add(self, found: Finding) -> None:
        """One row more."""
        self.gap = self.gap.with_others(found.gap)
        self.apart.update(found.row.apart)
        self.troubled += found.trouble is not None
        shown = {"row_id": found.row.id, "tokens": len(found.row.ids), "engine": found.engine}
        self.rows.append(shown | _gap_object(found.gap) | {"apart": dict(found.row.apart), "trouble": found.trouble})

    def fails(self, most_nats: float | None) -> bool:
        """Whether a row could not be scored, or a gap is larger than it may be, or no number."""
        return self.troubled > 0 or (most_nats is not None and not self.gap.max_nats <= min(most_nats, _LARGEST))

    def as_object(self) -> JsonObject:
        """The rows in the order of the file, and all of them together."""
        row_id = self.gap.max_at[0] if self.gap.max_at else None
        whole = {"rows": len(self.rows), **_gap_object(self.gap), "max_row_id": row_id}
        return {"rows": self.rows, "all": whole | {"apart": dict(self.apart), "troubled": self.troubled}}

    def show(self, console: Console) -> None:
        """One line each, and one for all."""
        for line in self._lines():
            console.print(line, soft_wrap=True, highlight=False, markup=False)

    def _lines(self) -> Iterable[str]:
        for row in self.rows:
            trouble = f"; {row['trouble']}" if row["trouble"] else ""
            yield f"{row['row_id']}: {_said(row)}{trouble}"
        rows = f"{len(self.rows)} rows" + (f", {self.troubled} of them not wholly scored" if self.troubled else "")
        yield f"all, {rows}: {_said(_gap_object(self.gap))}"
        for why, count in sorted(self.apart.items()):
            yield f"not compared: {count} ids {_WHY.get(why, f'of turns that were sampled so: {why}')}"


_WHY = {
    "temperature": "of turns that were sampled at another temperature than 1",
    "unknown": "of turns that were sampled nobody knows how",
    "greedy": "of turns that were sampled greedily",
    "no_turn": "with mask 1 outside of every turn",
}


def _gap_object(gap: Gap) -> dict[str, object]:
    return {
        "compared": gap.tokens,
        "mean_gap_nats": gap.mean_nats,
        "max_gap_nats": gap.max_nats if gap.tokens else None,
        "max_position": gap.max_at[1] if gap.max_at else None,
        "kl_nats": gap.kl_nats,
    }


def _said(gap: JsonObject) -> str:
    if not gap["compared"]:
        return "nothing to compare"
    place = "" if gap["max_position"] is None else f" (position {gap['max_position']})"
    figures = (
        f"mean |gap| {gap['mean_gap_nats']:.3g}, max |gap| {gap['max_gap_nats']:.3g}{place}, KL {gap['kl_nats']:.3g}"
    )
    return f"{gap['compared']} ids, {figures} nats"
