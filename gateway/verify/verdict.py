"""A file of rows and what is to be said of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gateway.errors import ConfigError
from gateway.verify.column_file import read_arrow, read_parquet
from gateway.verify.digest import CHAIN_START, chained, of_object
from gateway.verify.hashes import check_hashes
from gateway.verify.json_file import is_page, read_lines, read_page
from gateway.verify.masks import check_masks
from gateway.verify.mismatch import Json, Mismatch, Unreadable, expect
from gateway.verify.rollouts import Rollouts
from gateway.verify.row import VERSION, read_row
from gateway.verify.shape import FOOTER, LIST, check_object
from gateway.verify.turns import check_turns

Items = Iterator[tuple[str, object]]
"""What a file holds, in order: rows as ``("row", value)``, then its footer or the fields of a page by their names."""

_BINARY: Mapping[bytes, Callable[[BinaryIO], Items]] = {b"PAR1": read_parquet, b"\xff\xff\xff\xff": read_arrow}
"""How the binary formats begin."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a file."""

    file: str
    rows: int
    """How many rows were found good."""
    turns: int
    """How many turns they hold, each counted once."""
    trained: int
    """How many tokens they train; with ``shared=split`` each counted once."""
    mismatch: Mismatch | None = None
    """The first claim that does not hold."""
    warnings: tuple[str, ...] = ()
    """What the file cannot show, though nothing in it is wrong."""

    def __str__(self) -> str:
        if self.mismatch:
            return f"{self.file}: {self.mismatch}"
        return f"{self.rows} rows, {self.turns} turns, {self.trained} trained tokens: verified"

    def as_json(self) -> Json:
        """What ``--json`` prints."""
        counts = {"rows": self.rows, "turns": self.turns, "trained_tokens": self.trained}
        failure = self.mismatch and self.mismatch.as_json()
        return {
            "file": self.file,
            "verified": not failure,
            **counts,
            "warnings": list(self.warnings),
            "failure": failure,
        }


class _File:
    """A file while it is read."""

    def __init__(self, *, page: bool) -> None:
        self.page = page
        self.rollouts = Rollouts(whole=not page)
        self.rows = 0
        self.has_footer = False
        self._chain = CHAIN_START
        self._rest: Json = {}
        """Fields of a page that are no rows."""

    def take(self, kind: str, value: object) -> None:
        """The next of its items."""
        match kind:
            case "row":
                self._take_row(value)
            case "footer":
                self._take_footer(value)
            case _:
                self._rest[kind] = value

    def end(self, *, strict: bool) -> list[str]:
        """There are no more. What remains to be wished for is wrong in the eyes of who is `strict`."""
        lacks = [] if self.has_footer else [Mismatch("footer", "a footer, which tells missing rows", "none")]
        missing = None if self.page else self.rollouts.missing()
        if missing and not self.has_footer:
            raise missing
        lacks += [missing] if missing else []
        if strict and lacks:
            raise lacks[0]
        if self.page and self._rest.get("next") is None:
            excluded = self._rest.get("excluded", [])
            if not LIST.holds(excluded):
                raise Mismatch("excluded", LIST.name, excluded)
            self.rollouts.check_excluded(excluded, "excluded")
        return list(map(str, lacks))

    def _take_row(self, value: object) -> None:
        number = self.rows + 1
        row_id = value.get("row_id") if isinstance(value, dict) else None
        try:
            row = read_row(value)
            check_turns(row)
            check_masks(row)
            check_hashes(row)
            self.rollouts.add(number, row)
        except Mismatch as mismatch:
            raise mismatch.in_row(number, row_id if isinstance(row_id, str) else None) from None
        self._chain = chained(self._chain, row.certificate["row"])
        self.rows = number

    def _take_footer(self, value: object) -> None:
        self.has_footer = True
        footer = check_object(value, "footer", FOOTER)
        expect("footer.version", VERSION, footer["version"])
        if footer["rows"] != self.rows:
            raise self.rollouts.missing() or Mismatch("footer.rows", self.rows, footer["rows"])
        self.rollouts.check_excluded(footer["excluded"], "footer.excluded")
        rest = {name: held for name, held in footer.items() if name != "chain"}
        expect("footer.chain", chained(self._chain, of_object(rest, ("excluded",))), footer["chain"])


def verify(path: Path, *, strict: bool = False) -> Verdict:
    """Look at every claim of a file, up to the first that does not hold. A `strict` look misses a missing footer.

    Raises:
        ConfigError: the file cannot be read at all; or it is Parquet or Arrow, and pyarrow is missing.
    """
    file, warnings, mismatch = _File(page=False), list[str](), None
    try:
        with path.open("rb") as opened:
            beginning = opened.peek(4096)
            file = _File(page=is_page(beginning))
            for kind, value in _reader(beginning)(opened):
                file.take(kind, value)
            warnings = file.end(strict=strict)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
    except Mismatch as error:
        mismatch = error.in_row(file.rows + 1, None) if isinstance(error, Unreadable) else error
    counts = file.rows, file.rollouts.turns, file.rollouts.trained
    return Verdict(str(path), *counts, mismatch, tuple(warnings))


def _reader(beginning: bytes) -> Callable[[BinaryIO], Items]:
    """How to read a file that begins so."""
    for mark, read in _BINARY.items():
        if beginning.startswith(mark):
            return read
    return read_page if is_page(beginning) else read_lines
