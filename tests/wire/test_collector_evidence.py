"""Every sampled id has evidence of its own, and the alternatives that were asked for; or there is no turn."""

import json
from array import array

import orjson
import pytest

from gateway.errors import EngineProtocolError
from tests.wire.anything import GOLDEN
from tests.wire.events import beside, event, fed, named

# Evidence: every id with a logprob of its own, or no turn


@pytest.mark.parametrize("logprobs", [None, {}, {"content": None}, {"content": {}}, [], "none", 0])
def test_ids_without_logprobs_are_refused(logprobs):
    """However the engine leaves them out."""
    with pytest.raises(EngineProtocolError, match="2 token ids without logprobs"):
        fed(event([5, 6], logprobs))


def test_ids_without_the_logprobs_key_are_refused():
    """An engine that was asked for logprobs and never heard of them."""
    with pytest.raises(EngineProtocolError, match="1 token ids without logprobs"):
        fed(b'{"choices": [{"token_ids": [5]}]}')


@pytest.mark.parametrize("entries", [[named(5)], [named(5), named(6), named(7)], []])
def test_more_or_fewer_logprobs_than_ids_are_refused(entries):
    """The numbers are named, so that an operator sees which way it went."""
    with pytest.raises(EngineProtocolError, match=f"2 token ids but {len(entries)} logprobs"):
        fed(event([5, 6], {"content": entries}))


def test_logprobs_of_no_ids_are_refused():
    """A logprob whose id is missing is a lost id."""
    with pytest.raises(EngineProtocolError):
        fed(event([], {"content": [named(5)]}))


@pytest.mark.parametrize("logprobs", [None, {"content": []}, {"content": None}])
def test_an_event_without_ids_needs_no_logprobs(logprobs):
    """0.32 ends an aborted stream with an empty event."""
    collector = fed(event([5]), event([], logprobs, finish_reason="stop"))
    assert [5] == collector.completion().ids.tolist()


@pytest.mark.parametrize("entry", [None, -1.0, "token_id:6", [], True])
def test_an_id_without_a_logprob_is_refused_by_name(entry):
    """The id is named."""
    with pytest.raises(EngineProtocolError, match="no logprob for token id 6"):
        fed(event([5, 6], {"content": [named(5), entry]}))


@pytest.mark.parametrize("value", [None, "-1.0", [], {}, -9999.0, -9999])
def test_a_logprob_that_is_no_number_or_the_sentinel_is_refused(value):
    """The engine writes -9999.0 where it has none."""
    with pytest.raises(EngineProtocolError, match="logprob for token id 6"):
        fed(event([5, 6], {"content": [named(5), named(6, value)]}))


def test_an_entry_without_the_logprob_key_is_refused():
    """As if it were null."""
    with pytest.raises(EngineProtocolError, match="logprob for token id 5"):
        fed(event([5], {"content": [{"token_id": 5}]}))


@pytest.mark.parametrize("value", [False, True])
def test_a_boolean_is_no_logprob(value):
    """False would pass for probability one."""
    with pytest.raises(EngineProtocolError):
        fed(event([5], {"content": [named(5, value)]}))


@pytest.mark.parametrize("literal", [b"NaN", b"-Infinity", b"-1e999", b"-" + b"9" * 400])
def test_a_logprob_that_is_not_finite_is_refused(literal):
    """JSON has no word for it; what engines write instead cannot be read."""
    payload = event([5], {"content": [named(5, "X")]}).replace(b'"X"', literal)
    with pytest.raises(EngineProtocolError):
        fed(payload)


@pytest.mark.parametrize("value", [-1e39, -1e300, -1.7976931348623157e308])
def test_a_logprob_that_float32_cannot_hold_is_refused(value):
    """Stored it would be minus infinity: the engine's fault, not the ledger's."""
    collector = fed(event([5]))
    with pytest.raises(EngineProtocolError):
        collector.feed(event([6], {"content": [named(6, value)]}, finish_reason="stop"))
    partial = collector.partial()
    assert partial is not None
    assert [5] == partial.ids.tolist()


@pytest.mark.parametrize("value", [1e-9, 0.25, 1, 9999.0])
def test_a_logprob_above_zero_is_refused(value):
    """No probability is above one."""
    with pytest.raises(EngineProtocolError, match="logprob for token id 5"):
        fed(event([5], {"content": [named(5, value)]}))


@pytest.mark.parametrize("value", [0, 0.0, -0.0, -1e-30, -20, -9998.9])
def test_a_logprob_at_or_below_zero_is_kept(value):
    """An integer is a number too."""
    collector = fed(event([5], {"content": [named(5, value)]}, finish_reason="stop"))
    assert array("f", [value]) == collector.completion().logprobs


@pytest.mark.parametrize(
    "entry",
    [
        {"token_id": 7, "logprob": -1.0},
        {"token_id": "6", "logprob": -1.0},
        {"token_id": None, "logprob": -1.0},
        {"token": "token_id:7", "logprob": -1.0},
        {"token": "6", "logprob": -1.0},
        {"token": "a word", "logprob": -1.0},
        {"logprob": -1.0},
        {"token_id": None, "token": "token_id:6", "logprob": -1.0},
        {"token_id": [6], "logprob": -1.0},
    ],
)
def test_the_logprob_of_another_id_is_refused(entry):
    """The id it should have been is named."""
    with pytest.raises(EngineProtocolError, match=r"for token id 6$"):
        fed(event([5, 6], {"content": [named(5), entry]}))


def test_a_boolean_names_no_id():
    """True equals one in Python, not in JSON."""
    with pytest.raises(EngineProtocolError):
        fed(event([1], {"content": [{"token_id": True, "logprob": -1.0}]}))


def test_both_ways_of_naming_an_id_are_read():
    """Up to 0.31 as a text, since 0.32 as a number."""
    entries = [{"token": "token_id:5", "logprob": -1.5, "bytes": None}, named(6, -2.5)]
    completion = fed(event([5, 6], {"content": entries}, finish_reason="stop")).completion()
    assert [5, 6] == completion.ids.tolist()
    assert [-1.5, -2.5] == completion.logprobs.tolist()


# Ids


@pytest.mark.parametrize("ids", [None, 5, "5", {}, [-1], [2**32], [2**64], [5.0], [True], [None], ["5"], [[5]]])
def test_ids_that_are_no_ids_are_refused(ids):
    """Even where their logprobs look right."""
    payload = json.dumps({"choices": [{"token_ids": ids, "logprobs": {"content": [named(5)]}}]}).encode()
    with pytest.raises(EngineProtocolError, match="token_ids"):
        fed(payload)


def test_a_choice_without_ids_is_refused():
    """A missing key is not an empty list."""
    with pytest.raises(EngineProtocolError, match="without token_ids"):
        fed(b'{"choices": [{"finish_reason": "stop"}]}')


def test_the_largest_id_fits():
    """Four bytes hold it."""
    completion = fed(event([0, 2**32 - 1], finish_reason="stop")).completion()
    assert [0, 2**32 - 1] == completion.ids.tolist()


# Alternatives


def with_alternatives(*entries: dict[str, object]) -> bytes:
    """A finished answer of these logprobs."""
    return event([entry["token_id"] for entry in entries], {"content": entries}, finish_reason="stop")


def recorded(name: str) -> list[bytes]:
    """What an engine sent."""
    case = orjson.loads((GOLDEN / "generate" / f"{name}.json").read_bytes())
    return [payload.encode() for payload in case["payloads"]]


def test_the_alternatives_that_were_asked_for_are_kept_beside_each_id():
    """Asked for three, vLLM 0.32 sends the sampled id and the two most likely."""
    alternatives = fed(*recorded("v0.32.0-generate_logprobs3"), top_logprobs=2).completion().alternatives

    assert alternatives is not None
    assert alternatives.width == 3
    assert alternatives.ids.tolist() == [92822, 150534, 77568, 34424, 135712, 135144, 104954, 76527, 15619]
    assert alternatives.most_likely(0, 2) == [(150534, -4.016871452331543), (77568, -4.630556106567383)]


@pytest.mark.parametrize("top_logprobs", [None, 0])
@pytest.mark.parametrize("name", ["v0.32.0-generate_logprobs3", "v0.20.2-generate_logprobs3"])
def test_alternatives_that_were_not_asked_for_are_not_looked_at(name, top_logprobs):
    """They may be ill, as before 0.22."""
    assert fed(*recorded(name), top_logprobs=top_logprobs).completion().alternatives is None


def test_alternatives_that_all_have_the_sampled_id_are_refused_with_the_remedy():
    """The logprobs of vLLM 0.20 are those of other tokens, and nobody knows which."""
    with pytest.raises(EngineProtocolError, match=r"token id 67627 one id.*vLLM 0\.22 or later"):
        fed(*recorded("v0.20.2-generate_logprobs3"), top_logprobs=2)


def test_alternatives_come_together_over_events_and_in_both_ways_of_naming_an_id():
    """A stream has the alternatives of each event's ids."""
    old = {"token": "token_id:9", "logprob": -2.5, "bytes": None}
    first = event([5], {"content": [beside(5, named(5), old)]})
    last = with_alternatives(beside(6, named(6, -0.5), named(4294967295, 0)), beside(7, named(0), named(7)))

    alternatives = fed(first, last, top_logprobs=1).completion().alternatives

    assert alternatives is not None
    assert alternatives.ids.tolist() == [5, 9, 6, 4294967295, 0, 7]
    assert alternatives.logprobs.tolist() == [-1.0, -2.5, -0.5, 0.0, -1.0, -1.0]


def test_what_a_grammar_or_top_p_forbids_is_an_alternative_all_the_same():
    """The engine writes minus infinity as -9999; a token that was forced has no other alternatives."""
    alternatives = fed(with_alternatives(beside(5, named(5, 0.0), named(0, -9999.0))), top_logprobs=1).completion()
    assert alternatives.alternatives is not None
    assert alternatives.alternatives.most_likely(0, 2) == [(5, 0.0), (0, -9999.0)]


@pytest.mark.parametrize("listed", [..., None, {}, "x", 5])
def test_an_id_without_the_alternatives_that_were_asked_for_is_refused(listed):
    """The answer would be less than what was asked for."""
    entry = named(5) if listed is ... else {**named(5), "top_logprobs": listed}
    with pytest.raises(EngineProtocolError, match="no top_logprobs for token id 5, of which 2 are due"):
        fed(with_alternatives(entry), top_logprobs=1)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_fewer_or_more_alternatives_than_asked_for_are_refused(count):
    """Both numbers are named."""
    ill = beside(6, *(named(i) for i in range(count)))
    with pytest.raises(EngineProtocolError, match=f"{count} top_logprobs for token id 6, not 2"):
        fed(with_alternatives(beside(5, named(5), named(9)), ill), top_logprobs=1)


@pytest.mark.parametrize(
    "named_as",
    [
        {},
        {"token_id": None},
        {"token_id": -1},
        {"token_id": 2**32},
        {"token_id": True},
        {"token_id": 9.0},
        {"token_id": [9]},
        {"token_id": "9"},
        {"token": "9"},
        {"token": "token_id:"},
        {"token": "token_id:-9"},
        {"token": "token_id:99999999999"},
        {"token": "token_id:4294967296"},
        {"token": "token_id:٩"},
    ],
)
def test_an_alternative_that_names_no_id_is_refused(named_as):
    """Nobody could say which token it is."""
    with pytest.raises(EngineProtocolError, match="no id among the top_logprobs of token id 5"):
        fed(with_alternatives(beside(5, named(5), {"logprob": -1.0, **named_as})), top_logprobs=1)


@pytest.mark.parametrize("item", [None, 9, "token_id:9", [9]])
def test_an_alternative_that_is_no_object_is_refused(item):
    """It is the engine's fault, not ours."""
    with pytest.raises(EngineProtocolError, match="among the top_logprobs of token id 5"):
        fed(with_alternatives(beside(5, named(5), item)), top_logprobs=1)


@pytest.mark.parametrize("value", [None, "-1.0", True, False, 0.25, -9999.1, -1e39, [], {}])
def test_an_alternative_without_a_logprob_is_refused(value):
    """No probability is above one, and nothing is below what the engine writes for minus infinity."""
    with pytest.raises(EngineProtocolError, match="among the top_logprobs of token id 5, which is no logprob"):
        fed(with_alternatives(beside(5, named(5), named(9, value))), top_logprobs=1)


def test_what_came_before_an_ill_alternative_is_kept_with_its_alternatives():
    """An event is taken whole or not at all."""
    collector = fed(event([5], {"content": [beside(5, named(5), named(9))]}), top_logprobs=1)
    with pytest.raises(EngineProtocolError):
        collector.feed(with_alternatives(beside(6, named(6), named(9)), beside(7, named(7))))

    partial = collector.partial()

    assert partial is not None
    assert partial.alternatives is not None
    assert partial.ids.tolist() == [5]
    assert partial.alternatives.ids.tolist() == [5, 9]
