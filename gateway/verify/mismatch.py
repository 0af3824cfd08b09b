"""What a file claims and does not keep."""

from typing import Any

Json = dict[str, Any]
"""An object of the file."""


class Mismatch(Exception):
    """The first claim that does not hold, and its place."""

    def __init__(
        self,
        at: str,
        expected: object,
        found: object,
        *,
        turn_id: str | None = None,
        row: int | None = None,
        row_id: str | None = None,
    ) -> None:
        super().__init__(at)
        self.at = at
        """Where in the row: a field's path, with an index where it is one of many; else ``footer.rows``, ``line``, …"""
        self.expected = expected
        """What the rest of the file makes of it, or says in words."""
        self.found = found
        """What stands there."""
        self.turn_id = turn_id
        self.row = row
        """The number of the row in the file, from one."""
        self.row_id = row_id

    def in_row(self, row: int, row_id: str | None) -> "Mismatch":
        """The same, in this row unless it names another."""
        if self.row is None:
            self.row, self.row_id = row, row_id
        return self

    def as_json(self) -> Json:
        """What ``--json`` shows under ``failure``."""
        return {
            "row": self.row,
            "row_id": self.row_id,
            "turn_id": self.turn_id,
            "position": self.at,
            "expected": self.expected,
            "found": self.found,
        }

    def __str__(self) -> str:
        where = [] if self.row is None else [f"row {self.row}" + (f" ({self.row_id})" if self.row_id else "")]
        where += [f"turn {self.turn_id}"] if self.turn_id else []
        text = f"{', '.join([*where, self.at])}: expected {_told(self.expected)}, found {_told(self.found)}"
        return " ".join(text.encode("utf-8", "backslashreplace").decode().split())  # names are the file's, too


class Unreadable(Mismatch):
    """What stands where the next row is due is none."""


def _told(value: object) -> str:
    """Words as they are, values as Python shows them, but not for ever."""
    text = value if isinstance(value, str) and " " in value else repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def expect(at: str, expected: object, found: object, *, turn_id: str | None = None) -> None:
    """Two values must be one, of one type.

    Raises:
        Mismatch: they are not.
    """
    if type(expected) is not type(found) or expected != found:
        raise Mismatch(at, expected, found, turn_id=turn_id)
