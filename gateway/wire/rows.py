"""Training rows as JSON; `docs/rows.md` says what each field means."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from gateway.core.certificate import Chain, certificate
from gateway.core.rows import Row, RowTurn
from gateway.core.segments import Excluded
from gateway.core.side_arrays import SideArray
from gateway.core.types import JsonObject, Message
from gateway.wire.arrays import encode_numbers, encode_old_form, encode_side_array
from gateway.wire.chat_answer import encoded_call
from gateway.wire.rows_query import ArrayForm, SideArrayForm
from gateway.wire.turns import span_object, told_turn

_BY_THE_MODEL = ("stop", "tool_calls")


def row_object(row: Row, arrays: ArrayForm = "json", routed_experts: SideArrayForm = "base64") -> dict[str, object]:
    """A row as a trainer reads it."""
    claims = claims_of(row)
    return {
        **claims,
        **{name: v.tolist() if arrays == "json" else encode_numbers(v) for name, v in row.arrays.items()},
        "side_arrays": {name: _side_array(name, held, routed_experts) for name, held in row.side_arrays.items()},
        "certificate": certificate(row, claims),
    }


def claims_of(row: Row) -> dict[str, object]:
    """What a row says beside its arrays and its certificate."""
    last, root = row.last, row.turns[0].turn.root  # the first was rendered with what it says, the others bridged
    sent = json.loads(root.sent)
    system = [{"role": "system", **message} for message in sent["system"]]
    return {
        **row.session,
        "row_id": row.id,
        "row_index": row.index,
        "n_rows": row.rows,
        "rollout_trainable_tokens": row.rollout_trainable_tokens,
        "parent_row_id": row.parent_id,
        "tags": {name: value for part in row.turns for name, value in part.turn.labels.tags.items()},
        "model": root.model or None,
        "tools": sent["tools"],
        "messages": [*system, *map(_message, row.messages)],
        "policy_versions": [span_object(span) for part in row.turns for span in part.spans()],
        "ended_by": last.ended_by,
        "truncated": last.ended_by not in _BY_THE_MODEL,
        "thinking_retention": last.origin.thinking_retention,
        "turns": [_turn(part) for part in row.turns],
    }


def with_footer(written: Iterable[JsonObject], excluded: Callable[[], Sequence[JsonObject]]) -> Iterator[JsonObject]:
    """Written rows, and after the last what is said at the end of a file; `excluded` is asked then."""
    chain = Chain()
    for row in written:
        made = row["certificate"]
        assert isinstance(made, dict)
        chain.add(made["row"])
        yield row
    yield {"footer": chain.footer(excluded())}


def excluded_objects(session_id: str, excluded: Iterable[Excluded]) -> list[JsonObject]:
    """The turns of a session that no row trains, each with its reason and what it sampled."""
    return [
        {
            "session_id": session_id,
            "turn_id": left.turn.id,
            "reason": left.because,
            "tokens": len(left.turn.completion.ids),
        }
        for left in excluded
    ]


def _turn(part: RowTurn) -> JsonObject:
    place = {"start": part.start, "end": part.end, "trained": part.trained, "masked_because": part.masked_because}
    return told_turn(part.turn, part.fate) | place


def _message(message: Message) -> JsonObject:
    """A message in OpenAI's words."""
    told: dict[str, object] = {"role": message.role, "content": message.content}
    if message.reasoning is not None:
        told["reasoning_content"] = message.reasoning
    if message.tool_calls:
        told["content"] = message.content or None
        told["tool_calls"] = [encoded_call(call, call.arguments) for call in message.tool_calls]
    optional = {"tool_call_id": message.tool_call_id, "name": message.name}
    return told | {name: value for name, value in optional.items() if value is not None}


def _side_array(name: str, held: SideArray | None, routed_experts: SideArrayForm) -> JsonObject | None:
    if held is None:
        return None
    old = name == "routed_experts" and routed_experts == "base85"
    return encode_old_form(held) if old else encode_side_array(held)
