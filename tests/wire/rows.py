"""A session with all that a row can show, and its exports."""

from collections.abc import Mapping
from typing import Any

from gateway.core.rows import Rollout
from gateway.core.side_arrays import SideArray
from gateway.core.types import JsonObject, Labels, Message, ToolCall, token_ids
from gateway.core.versions import Versions
from gateway.wire.pages import encode_lines
from gateway.wire.rows import excluded_objects, row_object, with_footer
from gateway.wire.rows_query import decode_query
from tests.core.present import session_now
from tests.core.toy import Talk, assistant, tool, user

SYSTEM = Message("system", "You help.")
TOOLS: tuple[JsonObject, ...] = (
    {"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {}}}},
)
SESSION: Mapping[str, Any] = {
    "session_id": "task-17/a",
    "group_id": "task-17",
    "rollout_id": "task-17/a",
    "reward": 0.5,
    "metadata": {"seed": 3, "ü": [None, 1.5]},
}
QUERIES = {
    "once": "",
    "split": "shared=split",
    "duplicate": "shared=duplicate&include=aborted",
    "latest": "leaves=latest&dropped=exclude",
    "stale": "max_staleness=0",
    "base64": "arrays=base64",
    "base85": "arrays=base64&routed_experts=base85",
}
"""The exports that there is a file of, and what they ask for."""


def talk() -> Talk:
    """Tools and a branch, a call that was lost, one that was dropped, a title, an aborted turn, a compaction."""
    made = Talk()
    asked = (SYSTEM, user("List it."))
    call = ToolCall("call_1", "ls", '{"a": 1}')
    first = made.take(*asked, answer=assistant("", call, reasoning="Let me look."), tools=TOOLS, versions="a")
    seen = (*asked, first.message, tool("x\ny"))
    made.take(
        *seen, answer=assistant("Two."), tools=TOOLS, versions="aaabb", labels=Labels({"agent": "main", "try": "1"})
    )
    second = made.take(
        *seen, answer=assistant("Zwei: \u2028ü"), tools=TOOLS, versions="b" * 9, labels=Labels({"try": "2"})
    )
    made.take(Message("system", "Make a title."), user("List it."), labels=Labels(train=False), versions="b" * 9)
    further = (*seen, second.message, user("And?"))
    lost = made.take(*further, tools=TOOLS, versions="b" * 9)
    made.ledger.deliveries.note(lost, delivered=False)
    made.ledger.deliveries.note(second, delivered=True)
    made.take(*further, status="aborted", tools=TOOLS, versions="b" * 9)
    made.take(SYSTEM, user("So far: two."), answer=assistant("Done."), side_arrays=_beside(), versions=["unknown"] * 6)
    return made


def _beside() -> dict[str, SideArray]:
    prompt, sampled = 32, 6
    could = token_ids([1, 2068, 2111, 4, 2110, 2101, 2046, 2])  # the ids of the answer, and here and there another
    mask = SideArray(0, "<u4", (8,), could.tobytes(), token_ids([0, 2, 3, 5, 6, 7, 8]))
    routed = SideArray(-prompt, "|u1", (prompt + sampled - 1, 2, 1), bytes(range(2 * (prompt + sampled - 1))))
    return {"routed_experts": routed, "sampling_mask": mask}


def export(query: str, made: Talk | None = None) -> bytes:
    """The session as a file of rows."""
    asked = decode_query([tuple(part.split("=")) for part in query.split("&") if part])  # type: ignore[misc]  # pairs
    made, versions = made or talk(), Versions()
    for turn in made.ledger.turns:
        versions.note(turn.completion.spans)
    fresh = versions.fresh(asked.selection.max_staleness)
    rollout = Rollout([session_now(made.ledger, SESSION)], asked.selection, fresh)
    rows = (row_object(row, asked.arrays, asked.routed_experts) for row in rollout)
    lines = with_footer(rows, lambda: excluded_objects(SESSION["session_id"], rollout.excluded(0)))
    return b"".join(encode_lines(lines))
