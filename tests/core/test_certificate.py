"""A certificate is what ``docs/certificate.md`` makes of a row: each hash is made here once more, the long way."""

import json
import struct
from array import array
from hashlib import sha256
from typing import Any

import pytest

from gateway.core.canon import Difference
from gateway.core.certificate import Chain, certificate, hash_of
from gateway.core.rows import Rollout, Row
from gateway.core.selection import Selection
from gateway.core.side_arrays import SideArray
from gateway.core.types import JsonObject
from tests.core.present import session_now
from tests.core.toy import Talk, assistant, user


def sha(data: bytes | str) -> str:
    return sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def ids(values) -> bytes:
    return b"".join(struct.pack("<I", value) for value in values)


def floats(values) -> bytes:
    return b"".join(struct.pack("<f", value) for value in values)


def rows(talk: Talk, fresh: frozenset[str] | None = None, **selection) -> list[Row]:
    return list(Rollout([session_now(talk.ledger)], Selection(**selection), fresh))


def told_of(row: Row, claims: JsonObject | None = None) -> dict[str, Any]:
    """Its certificate."""
    return certificate(row, claims or {})


def talk() -> Talk:
    """Two turns, the second with an answer that came back changed; and a third beside it."""
    made = Talk()
    first = made.take(user("a"), answer=assistant("x "), versions="ab" + "b")
    made.take(user("a"), assistant("x"), user("b"), answer=assistant("y"), versions="bb")
    made.take(user("a"), first.message, user("c"), answer=assistant("z"), versions="bb")
    return made


@pytest.mark.parametrize("selection", [{}, {"shared": "split"}, {"max_staleness": 0}])
def test_a_certificate_hashes_every_array_whole_and_turn_by_turn(selection):
    """The prompt of a turn is all that stands before it."""
    fresh = frozenset("b") if selection.get("max_staleness") == 0 else None
    for row in rows(talk(), fresh, **selection):
        made = told_of(row)
        weights = {"loss_weights": sha(floats(row.loss_weights))} if row.loss_weights else {}
        assert made["arrays"] == {
            "token_ids": sha(ids(row.token_ids)),
            "loss_mask": sha(bytes(row.loss_mask)),
            "logprobs": sha(floats(row.logprobs)),
            **weights,
            "side_arrays": {},
        }
        for told, part in zip(made["turns"], row.turns, strict=True):
            own = slice(part.start, part.end)
            assert told["turn_id"] == part.turn.id
            assert told["prompt"] == sha(ids(part.turn.prompt_ids()))
            assert told["completion"] == sha(ids(part.turn.completion.ids))
            assert told["logprobs"] == sha(floats(part.turn.completion.logprobs))
            assert told["mask"] == sha(bytes(row.loss_mask[own]))
            assert told["side_arrays"] == {}


def test_a_certificate_says_how_each_prompt_came_about():
    """Rendered for a reason, or bridged from the turn before; and what differed in the history."""
    made = talk()
    told = told_of(rows(made)[0])["turns"]
    assert [(turn["how"], turn["reason"], turn["base_id"]) for turn in told] == [
        ("rendered", "first_turn", None),
        ("bridged", None, "t0"),
    ]
    assert made.ledger.turns[1].differences == {"content_whitespace": Difference(1, 3)}
    assert told[1]["differences"] == {"content_whitespace": {"messages": 1, "tokens": 3}}
    spans = '[{"end":1,"source":"engine","start":0,"version":"a"},{"end":3,"source":"engine","start":1,"version":"b"}]'
    assert told[0]["spans"] == sha(spans)


def test_a_certificate_says_what_was_selected():
    """And which versions of the row that masks."""
    made = told_of(rows(talk(), frozenset("b"), max_staleness=0)[0])
    assert made["selection"] == {
        "leaves": "all",
        "include": [],
        "dropped": "include",
        "distribution": None,
        "max_staleness": 0,
        "stale_versions": ["a"],
        "shared": "once",
    }
    assert made["version"] == 1
    assert made["renderer"] == {"name": "unknown", "version": "unknown", "template": None}


def in_parts(said: JsonObject, *lists: str) -> str:
    """The hash of an object in which these lists stand as hashes of their items' hashes."""
    hashed = {name: sha("".join(map(hash_of, said[name]))) for name in lists}  # type: ignore[call-overload]  # lists
    return sha(json.dumps({**said, **hashed}, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def test_claims_and_certificate_are_hashed_as_sorted_json_and_their_long_lists_item_by_item():
    """In UTF-8, whatever stands in them."""
    claims = {"b": [1, 1.0, None, True], "a": {"ü": "\u2028\ud800"}}
    text = b'{"a":{"\xc3\xbc":"\xe2\x80\xa8\xed\xa0\x80"},"b":[1,1.0,null,true]}'
    assert hash_of(claims) == sha(text)
    made = told_of(rows(talk())[0], claims)
    assert made["claims"] == sha(text)
    assert list(made)[-1] == "row"
    rest = {name: value for name, value in made.items() if name != "row"}
    assert made["row"] == in_parts(rest, "turns")
    long: JsonObject = {"model": "m", "messages": ["a", {"b": "ü"}], "tools": [], "policy_versions": [1], "turns": [2]}
    assert told_of(rows(talk())[0], long)["claims"] == in_parts(long, "messages", "tools", "policy_versions", "turns")


def test_side_arrays_are_hashed_with_their_places_and_shapes():
    """Whole, and each turn's part: experts from the id before its prompt, masks where it sampled."""
    made = Talk()
    start = len(made.renderer.render([user("a")], ()))
    experts = SideArray(-start, "|u1", (start + 1, 2), bytes(range(2 * (start + 1))))
    mask = SideArray(0, "<u4", (3,), ids([4, 5, 6]), array("I", [0, 1, 3]))
    first = made.take(user("a"), answer=assistant("x"), side_arrays={"routed_experts": experts, "sampling_mask": mask})
    more = len(made.renderer.bridge([], [], [user("b")], ()) or ())
    later = SideArray(-1 - more, "|u1", (more + 2, 2), bytes([9, 8]) * (more + 2))
    mask2 = SideArray(0, "<u4", (2,), ids([7, 8]), array("I", [0, 1, 2]))
    made.take(
        user("a"),
        first.message,
        user("b"),
        answer=assistant("y"),
        side_arrays={"routed_experts": later, "sampling_mask": mask2},
    )
    (row,) = rows(made)
    told = told_of(row)
    two = row.turns[1].start
    whole = f'{{"dtype":"|u1","shape":[{len(row.token_ids) - 1},2],"start":0}}'.encode()
    assert told["arrays"]["side_arrays"]["routed_experts"] == sha(whole + experts.data + later.data)
    parts = [turn["side_arrays"] for turn in told["turns"]]
    assert parts[0]["routed_experts"] == sha(
        f'{{"dtype":"|u1","shape":[{start + 1},2],"start":0}}'.encode() + experts.data
    )
    assert parts[1]["routed_experts"] == sha(
        f'{{"dtype":"|u1","shape":[{more + 2},2],"start":{start + 1}}}'.encode() + later.data
    )
    assert parts[0]["sampling_mask"] == sha(
        f'{{"dtype":"<u4","shape":[3],"start":{start}}}'.encode() + ids([0, 1, 3]) + mask.data
    )
    assert parts[1]["sampling_mask"] == sha(
        f'{{"dtype":"<u4","shape":[2],"start":{two}}}'.encode() + ids([0, 1, 2]) + mask2.data
    )


def test_a_side_array_that_the_row_has_not_is_null():
    """In all places."""
    made = Talk()
    mask = SideArray(0, "<u4", (2,), ids([7, 8]), array("I", [0, 1, 2]))
    first = made.take(user("a"), answer=assistant("x"), side_arrays={"sampling_mask": mask})
    made.take(user("a"), first.message, user("b"))
    told = told_of(rows(made)[0])
    assert told["arrays"]["side_arrays"] == {"sampling_mask": None}
    assert [turn["side_arrays"] for turn in told["turns"]] == [{"sampling_mask": None}] * 2


def test_the_chain_runs_over_the_rows_and_the_footer():
    """Each link is the hash of the text before it and the next."""
    chain = Chain()
    chain.add("a" * 64)
    chain.add("b" * 64)
    links = sha(sha("0" * 64 + "a" * 64) + "b" * 64)
    excluded = [{"turn_id": "t"}]
    said = {"version": 1, "rows": 2, "excluded": excluded}
    assert chain.footer(excluded) == {**said, "chain": sha(links + in_parts(said, "excluded"))}
