"""What a trainer asks of turns and rows, and their pages, typed, as ``/openapi.json`` describes them.

A row itself is described by `docs/row.schema.json`: see `gateway.wire.row_schema`.
"""

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema, with_config
from typing_extensions import TypedDict

from gateway.core.sampling import Distribution
from gateway.core.selection import Dropped, ExcludedBecause, Leaves, Shared
from gateway.wire.row_schema import COMPONENTS
from gateway.wire.rows_query import ArrayForm, SideArrayForm
from gateway.wire.sampling_body import CLOSED, Positive

Row = Annotated[dict[str, object], WithJsonSchema({"$ref": COMPONENTS + "Row"})]
Line = Annotated[
    dict[str, object], WithJsonSchema({"anyOf": [{"$ref": COMPONENTS + "Row"}, {"$ref": COMPONENTS + "RowFooter"}]})
]
"""The last one is a footer where that is asked for."""
Turn = Annotated[dict[str, object], WithJsonSchema({"$ref": COMPONENTS + "Turn"})]


@with_config(CLOSED)
class RowsParameters(TypedDict, total=False):
    """Which rows, and how they are written."""

    leaves: Leaves
    """All rows, or of each session the one whose last turn was recorded last."""
    include: Literal["aborted"]
    """Rows that end in an aborted turn, too."""
    dropped: Dropped
    """What was delivered and then dropped by the harness."""
    distribution: Annotated[list[Distribution], Field(min_length=1)]
    """Train only turns that were sampled so, with commas between."""
    max_staleness: Annotated[int, Field(ge=0, le=999_999_999)]
    """Mask ids of policies that are more versions old."""
    shared: Shared
    """Who trains a turn that stands in several rows."""
    arrays: ArrayForm
    routed_experts: SideArrayForm
    footer: Literal["false", "true"]
    """Of lines and columns only."""
    cursor: str
    """The `next` of the page before; of pages only."""


@with_config(CLOSED)
class PullParameters(TypedDict, total=False):
    """Rows of which sessions."""

    status: Literal["finished", "open", "all"]
    """`finished` where nothing is said."""
    group_id: str


@with_config(CLOSED)
class TurnsParameters(TypedDict, total=False):
    """Which turns, and how much of them."""

    cursor: str
    """The `next` of the page before."""
    ids: Literal["false", "true"]
    """With `prompt_ids`, `completion_ids` and `logprobs`."""


@with_config(CLOSED)
class ExcludedTurn(TypedDict):
    """A turn that no selected row trains."""

    session_id: str
    turn_id: str
    reason: ExcludedBecause
    tokens: Positive
    """What was sampled in it."""


@with_config(CLOSED)
class RowsPage(TypedDict):
    """Rows, and on the last page what was left out."""

    data: list[Row]
    next: str | None
    excluded: list[ExcludedTurn]


@with_config(CLOSED)
class TurnsPage(TypedDict):
    """Turns, oldest first."""

    data: list[Turn]
    next: str | None
