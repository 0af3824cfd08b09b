"""What must hold between the turns of a row: how each came about, how it ended, and what the row makes of them."""

from gateway.verify.distribution import check_distribution
from gateway.verify.mismatch import Json, Mismatch, expect
from gateway.verify.row import Row, Turn

ENDINGS = {
    "stop": ("stop", "tool_calls"),
    "repetition": ("stop", "tool_calls"),
    "length": ("max_tokens", "context", "budget"),
    "abort": ("client_gone", "infra", "cancelled"),
}
"""How a turn may have ended, by its finish reason."""

_SOURCES = ("engine", "fenced", "assumed")
_CUT_REASONS = ("lost", "engine_error", "abort", "no_finish", "stall", "pause", "removed")
_KV = ("kept", "recomputed")


def check_turns(row: Row) -> None:
    """Hold each turn to the one before, and the row's fields to its turns.

    Raises:
        Mismatch: one says something else.
    """
    before: Turn | None = None
    for turn in row.turns:
        _check_origin(turn, before)
        _check_spans(turn)
        _check_cuts(turn)
        _check_end(turn, last=turn is row.turns[-1], aborted_too="aborted" in row.selection["include"])
        check_distribution(turn)
        before = turn
    _check_row(row, row.turns[-1])


def _check_origin(turn: Turn, before: Turn | None) -> None:
    """A render begins a row, and bridges go on from the turn before."""
    turn.expect("how", "bridged" if before else "rendered")
    if before:
        turn.expect("reason", None)
        turn.expect("parent_id", before.id)
    elif not turn.said["reason"]:
        raise turn.mismatch("reason", "a reason, since the prompt was rendered")
    elif turn.said["parent_id"] == turn.id:
        raise turn.mismatch("parent_id", "another turn than this one")
    turn.expect("prompt_tokens", turn.start)
    turn.expect("completion_tokens", turn.end - turn.start)
    certified = f"certificate.turns[{turn.index}]"
    expect(f"{certified}.base_id", before.id if before else None, turn.certified["base_id"], turn_id=turn.id)
    for name in ("turn_id", "how", "reason", "differences"):
        expect(f"{certified}.{name}", turn.said[name], turn.certified[name], turn_id=turn.id)


def _check_spans(turn: Turn) -> None:
    """Policy versions tile the completion."""
    reached = 0
    for place, span in enumerate(turn.said["policy_versions"]):
        at = f"policy_versions[{place}]"
        expect(turn.at(f"{at}.start"), reached, span["start"], turn_id=turn.id)
        if not reached < span["end"] <= turn.end - turn.start:
            wanted = f"a position after {reached} and up to {turn.end - turn.start}"
            raise Mismatch(turn.at(f"{at}.end"), wanted, span["end"], turn_id=turn.id)
        if span["source"] not in _SOURCES:
            wanted = f"one of {', '.join(_SOURCES)}"
            raise Mismatch(turn.at(f"{at}.source"), wanted, span["source"], turn_id=turn.id)
        reached = span["end"]
    if reached != turn.end - turn.start:
        wanted = f"spans up to {turn.end - turn.start}"
        raise Mismatch(turn.at("policy_versions"), wanted, f"spans up to {reached}", turn_id=turn.id)


def _check_cuts(turn: Turn) -> None:
    """Each cut lies behind the one before, within the completion, and begins where that led, the last to the rank."""
    reached, cuts = 0, turn.said["cuts"]
    for place, cut in enumerate(cuts):
        at = f"cuts[{place}]"
        if not reached < cut["position"] < turn.end - turn.start:
            wanted = f"a position after {reached} and below {turn.end - turn.start}"
            raise Mismatch(turn.at(f"{at}.position"), wanted, cut["position"], turn_id=turn.id)
        for name, words in (("reason", _CUT_REASONS), ("kv", _KV)):
            if cut[name] not in words:
                raise Mismatch(turn.at(f"{at}.{name}"), f"one of {', '.join(words)}", cut[name], turn_id=turn.id)
        after = cuts[place + 1] if place + 1 < len(cuts) else None
        goes_on = (after["from_engine"], after["from_rank"]) if after else (turn.said["engine"], turn.said["rank"])
        for name, due in zip(("to_engine", "to_rank"), goes_on, strict=True):
            expect(turn.at(f"{at}.{name}"), due, cut[name], turn_id=turn.id)
        reached = cut["position"]


def _check_end(turn: Turn, *, last: bool, aborted_too: bool) -> None:
    """How it ended follows from why the engine stopped; nothing goes on from an aborted turn."""
    reason = turn.said["finish_reason"]
    if reason not in ENDINGS:
        raise turn.mismatch("finish_reason", f"one of {', '.join(ENDINGS)}")
    if turn.said["ended_by"] not in ENDINGS[reason]:
        raise turn.mismatch("ended_by", f"one of {', '.join(ENDINGS[reason])}, since the finish reason is {reason}")
    turn.expect("status", "aborted" if reason == "abort" else "complete")
    if reason == "abort" and not last:
        raise turn.mismatch("status", "a complete turn, since another goes on from it")
    if reason == "abort" and not aborted_too:
        raise turn.mismatch("status", "a complete turn, since the selection does not include aborted ones")


def _check_row(row: Row, last: Turn) -> None:
    """What the row says of itself is what its turns say."""
    said = row.said
    expect("row_id", last.id, said["row_id"])
    if said["parent_row_id"] == said["row_id"]:
        raise Mismatch("parent_row_id", "another row than this one", said["parent_row_id"])
    for name in ("ended_by", "thinking_retention"):
        expect(name, last.said[name], said[name], turn_id=last.id)
    expect("truncated", said["ended_by"] not in ("stop", "tool_calls"), said["truncated"], turn_id=last.id)
    tags: Json = {}
    for turn in row.turns:
        tags |= turn.said["tags"]
    expect("tags", tags, said["tags"])
    expect("policy_versions", len(moved := _moved(row)), len(said["policy_versions"]))
    for place, (due, found) in enumerate(zip(moved, said["policy_versions"], strict=True)):
        expect(f"policy_versions[{place}]", due, found, turn_id=row.turn_at(due["start"]).id)
    _check_answer(said, last)


def _moved(row: Row) -> list[Json]:
    """The spans of all turns, at positions in the row."""
    spans = ((turn, span) for turn in row.turns for span in turn.said["policy_versions"])
    return [span | {"start": turn.start + span["start"], "end": turn.start + span["end"]} for turn, span in spans]


def _check_answer(said: Json, last: Turn) -> None:
    """The messages end in the answer of the last turn, where it came to one."""
    if last.said["status"] == "aborted":
        return
    answer = said["messages"][-1] if said["messages"] else None
    at = f"messages[{len(said['messages']) - 1}]"
    if not isinstance(answer, dict) or answer.get("role") != "assistant":
        raise Mismatch(at, "the answer of the assistant", answer, turn_id=last.id)
    calls = bool(answer.get("tool_calls"))
    if said["ended_by"] in ("stop", "tool_calls") and calls != (said["ended_by"] == "tool_calls"):
        wanted = "calls where the turn ended by tool_calls, and only there"
        raise Mismatch(f"{at}.tool_calls", wanted, answer.get("tool_calls"), turn_id=last.id)
