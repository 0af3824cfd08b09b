"""What a trainer asks of rows: which, and how they are written."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, cast, get_args

from gateway.core.sampling import Distribution
from gateway.core.selection import Dropped, Leaves, Selection, Shared
from gateway.errors import BadRequest

ArrayForm = Literal["json", "base64"]
"""Numbers as JSON lists, or as little-endian bytes in base64."""
SideArrayForm = Literal["base64", "base85"]
"""As `docs/rows.md` has it, or `routed_experts` as trainers read them before."""

_SELECTION = ("leaves", "include", "dropped", "distribution", "max_staleness", "shared")
_FORM = ("arrays", "routed_experts", "footer", "cursor")


@dataclass(frozen=True, slots=True)
class RowsQuery:
    """Which rows to write, and how."""

    selection: Selection
    arrays: ArrayForm
    routed_experts: SideArrayForm
    footer: bool
    """Whether a last line says what the file holds, and what it leaves out."""
    cursor: str | None

    @property
    def digest(self) -> str:
        """What tells one selection from another; short, for a cursor."""
        return digest_of(self.selection.told())


def digest_of(value: object) -> str:
    """Eight digits that tell one JSON value from another."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def decode_query(pairs: Iterable[tuple[str, str]], also: Collection[str] = ()) -> RowsQuery:
    """What the parameters of a URL ask for; those named `also` are somebody else's.

    Raises:
        BadRequest: a name or a value is not known, or a name stands there twice.
    """
    given: dict[str, str] = {}
    known = (*_SELECTION, *_FORM, *also)
    for name, value in pairs:
        if name not in known:
            raise BadRequest(f"{name:.80} is not known here: these are {', '.join(sorted(known))}", param=f"{name:.80}")
        if name in given:
            raise BadRequest(f"{name} stands there twice", param=name)
        given[name] = value
    return RowsQuery(
        selection=_selection(given),
        arrays=_choice(given, "arrays", ArrayForm),
        routed_experts=_choice(given, "routed_experts", SideArrayForm),
        footer=_choice(given, "footer", Literal["false", "true"]) == "true",
        cursor=given.get("cursor"),
    )


def _selection(given: Mapping[str, str]) -> Selection:
    return Selection(
        leaves=cast(Leaves, _choice(given, "leaves", Leaves)),
        include_aborted="include" in given and _choice(given, "include", Literal["aborted"]) == "aborted",
        dropped=cast(Dropped, _choice(given, "dropped", Dropped)),
        distributions=_distributions(given.get("distribution")),
        max_staleness=_staleness(given.get("max_staleness")),
        shared=cast(Shared, _choice(given, "shared", Shared)),
    )


def _choice(given: Mapping[str, str], name: str, words: Any) -> Any:
    """One of the words of a literal type; the first of them where nothing is said."""
    allowed = get_args(words)
    value = given.get(name, allowed[0])
    if value not in allowed:
        raise BadRequest(f"{name} must be {' or '.join(allowed)}", param=name)
    return value


def _distributions(text: str | None) -> frozenset[Distribution] | None:
    if text is None:
        return None
    words, allowed = text.split(","), get_args(Distribution)
    if not set(words) <= set(allowed):
        raise BadRequest(
            f"distribution must be some of {', '.join(allowed)}, with commas between", param="distribution"
        )
    return frozenset(cast(list[Distribution], words))


def _staleness(text: str | None) -> int | None:
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", text) is None:
        raise BadRequest("max_staleness must be a number of versions, 0 or more", param="max_staleness")
    return int(text)
