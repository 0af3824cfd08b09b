"""Changes of real exports: where they strike, and what must be named then."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gateway.verify.verdict import Verdict, verify
from tests.verify.conftest import Export
from tests.verify.writer import Json, certified, footer_of, lines

Place = tuple[int | None, str | None, str]
"""The number of the row, the turn's id, and the beginning of the position: what must be named."""
Corruption = Callable[[list[Json], Json, Random], Place]
SEED = 20261130


@dataclass(frozen=True, slots=True)
class Spot:
    """A turn in a row, and a position."""

    at: int
    """The index of the row."""
    place: int
    """The index of the turn."""
    turn: Json
    position: int

    def names(self) -> Json:
        """What paths and positions may name."""
        names = {"place": self.place, "position": self.position}
        return names | {"start": self.turn["start"], "end": self.turn["end"]}


@dataclass(frozen=True, slots=True)
class Change:
    """One value is another."""

    name: str
    strike: Callable[[list[Json], Random], Spot]
    path: str
    """In the row, with dots between."""
    value: Any
    """What comes there, or what makes it of what was there."""
    position: str
    names_turn: bool = True

    def __call__(self, rows: list[Json], _footer: Json, random: Random) -> Place:
        """Do it, and say what must be named."""
        spot = self.strike(rows, random)
        steps = [
            int(step) if step.strip("-").isdigit() else step for step in self.path.format(**spot.names()).split(".")
        ]
        holder: Any = rows[spot.at]
        position, turn_id = self.position.format(**spot.names()), spot.turn["turn_id"]
        for step in steps[:-1]:
            holder = holder[step]
        holder[steps[-1]] = self.value(holder[steps[-1]]) if callable(self.value) else self.value
        return spot.at + 1, turn_id if self.names_turn else None, position


class Corruptions(list[Any]):
    """Parameters of a test: a table of changes, and functions that make others."""

    def __init__(self, table: Iterable[Change]) -> None:
        super().__init__(pytest.param(change, "once", id=change.name) for change in table)

    def change(self, export: str = "once") -> Callable[[Corruption], Corruption]:
        """One more, of the rows and the footer of this export."""

        def known(change: Corruption) -> Corruption:
            self.append(pytest.param(change, export, id=change.__name__))
            return change

        return known


def looked(file: Path, rows: list[Json], footer: Json | None) -> Verdict:
    """What is said of these rows as a file."""
    file.write_bytes(lines(rows, footer))
    return verify(file, strict=footer is not None)


def check_refused(folder: Path, export: Export, change: Corruption, *, forged: bool) -> None:
    """The change is refused: the row is named, the turn where there is one, and the position."""
    rows, footer = export.rows, export.footer
    row, turn_id, position = change(rows, footer, Random(SEED))
    if forged:
        rows = [certified(row) for row in rows]
        footer = footer_of(rows, footer["excluded"])
    found = looked(folder / "rows", rows, footer).mismatch

    assert found is not None
    assert (row, turn_id) == (found.row, found.turn_id), str(found)
    assert found.at.startswith(position), str(found)
    if row is not None:
        assert found.row_id == rows[row - 1]["row_id"]
        assert f"row {row} ({found.row_id})" in str(found)


def spots(rows: list[Json]) -> list[Spot]:
    """All turns in all rows, each at its first id."""
    return [
        Spot(at, place, turn, turn["start"]) for at, row in enumerate(rows) for place, turn in enumerate(row["turns"])
    ]


def trained(rows: list[Json], random: Random) -> Spot:
    """A trained turn."""
    return random.choice([spot for spot in spots(rows) if spot.turn["trained"]])


def sampled(rows: list[Json], random: Random) -> Spot:
    """A position that a trained turn sampled."""
    spot = trained(rows, random)
    return Spot(spot.at, spot.place, spot.turn, random.randrange(spot.turn["start"], spot.turn["end"]))


def prompted(rows: list[Json], random: Random) -> Spot:
    """A position of what the prompt of a trained turn adds."""
    spot = trained(rows, random)
    before = rows[spot.at]["turns"][spot.place - 1]["end"] if spot.place else 0
    return Spot(spot.at, spot.place, spot.turn, random.randrange(before, spot.turn["start"]))


def last_of(at: int) -> Callable[[list[Json], Random], Spot]:
    """The last turn of this row."""
    return lambda rows, _random: [spot for spot in spots(rows) if spot.at == at][-1]


def untrained(rows: list[Json], _random: Random) -> Spot:
    """The turn that the harness wants not to be trained."""
    return next(spot for spot in spots(rows) if not spot.turn["train"])


def bridged(rows: list[Json], random: Random) -> Spot:
    """A turn that goes on from another."""
    return random.choice([spot for spot in spots(rows) if spot.place])


def twice(rows: list[Json], _random: Random) -> Spot:
    """A turn, in the second row that holds it."""
    seen = set()
    for spot in spots(rows):
        if spot.turn["turn_id"] in seen:
            return spot
        seen.add(spot.turn["turn_id"])
    raise AssertionError("no turn is in two rows")
