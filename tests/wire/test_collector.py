"""What engines send, against what real ones sent, and against what none should send."""

import json
from array import array
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.types import Completion, FinishReason, VersionSpan
from gateway.errors import EngineError, EngineProtocolError, EngineUnavailable, GatewayError
from gateway.wire.collector import Collector
from gateway.wire.engine_error import decode_error
from tests.wire.anything import GOLDEN, golden, mostly, objects

DONE = b"[DONE]"


def fed(*payloads: bytes, top_logprobs: int | None = None) -> Collector:
    """A collector that took `payloads`."""
    collector = Collector(top_logprobs)
    for payload in payloads:
        collector.feed(payload)
    return collector


def named(token_id: int, logprob: object = -1.0) -> dict[str, object]:
    """One logprob as 0.32 writes it."""
    return {"token_id": token_id, "logprob": logprob}


def event(ids: Any = (5,), logprobs: Any = ..., **choice: object) -> bytes:
    """An event whose one choice has `ids`, each with its logprob unless `logprobs` says otherwise."""
    if logprobs is ...:
        logprobs = {"content": [named(i) for i in ids]}
    return orjson.dumps({"choices": [{"index": 0, "token_ids": ids, "logprobs": logprobs, **choice}]})


def with_spans(*spans: object, ids: Any = (5, 6, 7, 8)) -> Collector:
    """A collector that took a finished answer whose versions are `spans`."""
    return fed(event(ids, finish_reason="stop", weight_versions=list(spans)))


def span(start: Any, end: Any, version: Any = "v1") -> dict[str, object]:
    """A version span as the engine writes it."""
    return {"version": version, "start": start, "end": end}


def seen(completion: Completion) -> dict[str, object]:
    """A completion as golden files write it."""
    return {
        "ids": completion.ids.tolist(),
        "logprobs": completion.logprobs.tolist(),
        "finish_reason": completion.finish_reason.value,
        "spans": [[part.version, part.start, part.end, part.source] for part in completion.spans],
    }


def failure(error: GatewayError) -> dict[str, object]:
    """An error as golden files write it."""
    return {"error": type(error).__name__, "status": error.status, "code": error.code, "message": error.message}


def outcome(case: dict[str, Any]) -> dict[str, object]:
    """What a recorded answer means to the gateway."""
    if case["status"] != 200:
        return failure(decode_error(case["status"], case["body"].encode()))
    collector = Collector()
    try:
        for payload in case["payloads"]:
            collector.feed(payload.encode())
        return seen(collector.completion())
    except GatewayError as error:
        partial = collector.partial()
        if partial is None:
            return failure(error)
        kept = seen(partial)
        assert kept.pop("finish_reason") == "abort"
        return {**failure(error), "partial": kept}


# What real engines sent


@golden("generate")
def test_a_recorded_answer_means_what_its_golden_file_says(case):
    """Answers, streams and errors of vLLM 0.20 and 0.32, as they came over the wire."""
    assert case["expected"] == outcome(case)


@golden("generate")
def test_no_recorded_answer_makes_the_codec_say_a_path_or_a_list_of_ids(case):
    """0.20 echoes the request and names source files; neither reaches a caller."""
    message = str(outcome(case).get("message", ""))
    assert "site-packages" not in message
    assert "151644, 8948" not in message


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


# Alternatives


def beside(token_id: int, *alternatives: object) -> dict[str, object]:
    """A logprob with its alternatives."""
    return {**named(token_id), "top_logprobs": list(alternatives)}


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


# Events


@pytest.mark.parametrize("payload", [b"", b"{", b"\xff", b"[done]", b"[DONE] ", b"nonsense", b"[" * 5000])
def test_an_event_that_is_not_json_is_refused(payload):
    """Half an object, bytes that are no text, a misspelt end."""
    with pytest.raises(EngineProtocolError, match="not a JSON object"):
        fed(payload)


@pytest.mark.parametrize("payload", [b"null", b"[]", b"5", b'"text"', b"true"])
def test_an_event_that_is_no_object_is_refused(payload):
    """JSON alone is not enough."""
    with pytest.raises(EngineProtocolError, match="not a JSON object"):
        fed(payload)


@pytest.mark.parametrize("choices", [None, {}, "x", 0, [{"token_ids": []}, {"token_ids": []}]])
def test_an_event_without_its_one_choice_is_refused(choices):
    """Two choices would be two completions."""
    with pytest.raises(EngineProtocolError, match="without its one choice"):
        fed(orjson.dumps({"choices": choices}))


def test_an_event_without_choices_is_refused():
    """What has neither choices nor an error says nothing."""
    with pytest.raises(EngineProtocolError, match="without its one choice"):
        fed(b"{}")


def test_choices_of_two_completions_are_never_joined():
    """0.32 streams the choices of n = 2 one by one, told apart by their index only."""
    with pytest.raises(EngineProtocolError):
        fed(event([5], index=0), event([6], index=1))


@pytest.mark.parametrize("choice", [None, [], "x", 5])
def test_a_choice_that_is_no_object_is_refused(choice):
    """Whatever else it is."""
    with pytest.raises(EngineProtocolError, match="choice"):
        fed(orjson.dumps({"choices": [choice]}))


def test_an_event_of_usage_alone_changes_nothing():
    """It has an empty list of choices."""
    collector = fed(event([5], finish_reason="stop"), b'{"choices": [], "usage": {"completion_tokens": 1}}', DONE)
    assert [5] == collector.completion().ids.tolist()
    assert collector.done


@pytest.mark.parametrize("reason", ["", "error", "STOP", "tool_calls", 0, True, [], {}])
def test_an_unknown_finish_reason_is_refused(reason):
    """It may mean anything."""
    with pytest.raises(EngineProtocolError, match="unknown finish_reason"):
        fed(event([5], finish_reason=reason))


@pytest.mark.parametrize(
    "template",
    [
        b'{"choices": [{"token_ids": [], "finish_reason": %s}]}',
        b'{"choices": [{"token_ids": [1], "logprobs": {"content": [{"token_id": %s, "logprob": -1}]}}]}',
        b'{"choices": [{"token_ids": [1], "logprobs": {"content": [{"token_id": 1, "logprob": %s}]}}]}',
        b'{"error": %s}',
        b'{"error": {"message": %s}}',
    ],
    ids=["finish_reason", "token_id", "logprob", "error", "message"],
)
def test_a_deeply_nested_value_is_refused_like_any_other(template):
    """The JSON reader goes deeper than Python's own recursion."""
    with pytest.raises(EngineError):
        fed(template % (b"[" * 1000 + b"]" * 1000))


@pytest.mark.parametrize("reason", ["stop", "length", "repetition"])
def test_each_way_of_finishing_is_a_completion(reason):
    """A loop that the engine cut is what the policy sampled, too."""
    collector = fed(event([5]), event([6], finish_reason=None), event([7], finish_reason=reason))
    assert [5, 6, 7] == collector.completion().ids.tolist()
    assert reason == collector.completion().finish_reason
    assert not collector.done


# How a call ends


@pytest.mark.parametrize("end", [(), (DONE,), (event([6], finish_reason="abort"), DONE)])
def test_a_call_that_ends_unfinished_can_be_tried_again(end):
    """The stream broke off, ended in [DONE] alone as an abort does before 0.32, or says abort."""
    collector = fed(event([5]), *end)
    with pytest.raises(EngineUnavailable, match="aborted the call") as caught:
        collector.completion()
    assert caught.value.retryable
    assert collector.done == bool(end)


def test_a_finish_without_a_single_id_is_refused():
    """Nothing was sampled, so nothing can be trained on."""
    collector = fed(event([], None, finish_reason="stop"))
    with pytest.raises(EngineProtocolError, match="without a sampled token"):
        collector.completion()


def test_an_error_event_inside_a_200_is_raised():
    """Engines fail after their status line has left."""
    collector = fed(event([5]))
    with pytest.raises(EngineUnavailable, match=r"failed \(500\): gone"):
        collector.feed(b'{"error": {"message": "gone", "code": 500}}')
    partial = collector.partial()
    assert partial is not None
    assert [5] == partial.ids.tolist()


@pytest.mark.parametrize("error", [b'"gone"', b'{"message": "gone"}', b'{"message": "gone", "code": "busy"}'])
def test_an_error_event_without_a_status_counts_as_500(error):
    """A text, no code, or a code that is no status."""
    with pytest.raises(EngineUnavailable, match=r"failed \(500\): gone"):
        fed(b'{"error": %s}' % error)


# Version spans


def test_spans_come_from_the_last_event_and_tile_the_ids():
    """A change of weights midway, as 0.32 reports it."""
    collector = fed(
        event([5] * 27), event([6] * 93, finish_reason="stop", weight_versions=[span(0, 27, "a"), span(27, 120, "b")])
    )
    assert (VersionSpan("a", 0, 27), VersionSpan("b", 27, 120)) == collector.completion().spans


def test_the_default_version_is_unknown():
    """It is what vLLM says before anybody announced one."""
    assert (VersionSpan("unknown", 0, 4, "engine"),) == with_spans(span(0, 4, "default")).completion().spans


@pytest.mark.parametrize("versions", [{}, {"weight_versions": None}])
def test_an_engine_that_names_no_version_leaves_it_unknown(versions):
    """As all do before 0.32."""
    completion = fed(event([5, 6], finish_reason="stop", **versions)).completion()
    assert (VersionSpan("unknown", 0, 2, "assumed"),) == completion.spans


NO_TILING = {
    "gap": [span(0, 1), span(2, 4)],
    "late start": [span(1, 4)],
    "overlap": [span(0, 3), span(2, 4)],
    "short": [span(0, 3)],
    "long": [span(0, 5)],
    "long in two": [span(0, 4), span(4, 5)],
    "empty span first": [span(0, 0), span(0, 4)],
    "empty span last": [span(0, 4), span(4, 4)],
    "backwards": [span(0, 4), span(4, 2), span(2, 4)],
    "negative": [span(-1, 4)],
    "out of order": [span(2, 4), span(0, 2)],
    "a float": [span(0.0, 4)],
    "a text": [span("0", "4")],
    "a number as version": [span(0, 4, 7)],
    "null as version": [span(0, 4, None)],
    "null as end": [span(0, None)],
    "no version": [{"start": 0, "end": 4}],
    "no start": [{"version": "v1", "end": 4}],
    "no end": [{"version": "v1", "start": 0}],
    "no object": [None],
    "a list": [["v1", 0, 4]],
    "a good one, then none": [span(0, 4), None],
}


@pytest.mark.parametrize("spans", NO_TILING.values(), ids=NO_TILING)
def test_spans_that_do_not_tile_are_refused(spans):
    """A sampled id must have one version, and only one."""
    with pytest.raises(EngineProtocolError, match="weight_versions"):
        with_spans(*spans).completion()


@pytest.mark.parametrize("spans", [{"version": "v1", "start": 0, "end": 1}, "v1", 7, True])
def test_spans_that_are_no_list_are_refused(spans):
    """One span alone is not a list of one."""
    with pytest.raises(EngineProtocolError, match="weight_versions"):
        fed(event([5], finish_reason="stop", weight_versions=spans)).completion()


@pytest.mark.parametrize("spans", [[], {}, "", 0, False])
def test_spans_that_are_empty_do_not_tile_anything(spans):
    """Only null, or nothing at all, means that the engine does not know versions."""
    with pytest.raises(EngineProtocolError):
        fed(event([5], finish_reason="stop", weight_versions=spans)).completion()


def test_a_boolean_is_no_bound_of_a_span():
    """True equals one in Python, not in JSON."""
    with pytest.raises(EngineProtocolError):
        with_spans(span(False, True), ids=(5,)).completion()


# What is left of a call that failed


def test_nothing_sampled_leaves_no_partial():
    """Before the first event, and after an empty one."""
    assert Collector().partial() is None
    assert fed(event([], None, finish_reason="abort"), DONE).partial() is None


def test_a_partial_holds_what_had_evidence():
    """An event without it adds nothing, whatever came before it in the same event."""
    collector = fed(event([5], {"content": [named(5, -0.5)]}))
    with pytest.raises(EngineProtocolError):
        collector.feed(event([6, 7], {"content": [named(6), named(8)]}))
    partial = collector.partial()
    assert partial is not None
    assert {"ids": [5], "logprobs": [-0.5], "finish_reason": "abort", "spans": [["unknown", 0, 1, "assumed"]]} == seen(
        partial
    )


@pytest.mark.parametrize("top_logprobs", [None, 1])
def test_a_part_is_what_has_been_sampled_there(top_logprobs):
    """While the rest is still to come: with its evidence."""
    logprobs = {"content": [beside(5, named(5), named(9, -2.0)), beside(6, named(6), named(8, -2.0))]}
    part = fed(event([5, 6], logprobs), top_logprobs=top_logprobs).evidence.part(1, 2)
    assert (part.ids.tolist(), part.logprobs.tolist()) == ([6], [-1.0])
    assert (part.alternatives.ids.tolist() if part.alternatives else None) == ([6, 8] if top_logprobs else None)


def test_a_partial_keeps_the_versions_of_an_abort():
    """0.32 names them in the event that ends it."""
    collector = fed(event([5, 6]), event([], None, finish_reason="abort", weight_versions=[span(0, 2)]))
    partial = collector.partial()
    assert partial is not None
    assert FinishReason.ABORT is partial.finish_reason
    assert (VersionSpan("v1", 0, 2),) == partial.spans


@pytest.mark.parametrize("spans", NO_TILING.values(), ids=NO_TILING)
def test_a_partial_with_malformed_versions_is_unknown(spans):
    """The ids have their evidence; only their versions are lost."""
    partial = with_spans(*spans).partial()
    assert partial is not None
    assert (VersionSpan("unknown", 0, 4, "assumed"),) == partial.spans


def test_a_partial_of_a_finished_answer_is_an_abort():
    """A turn can be given up after the engine had finished."""
    partial = with_spans(span(0, 4)).partial()
    assert partial is not None
    assert FinishReason.ABORT is partial.finish_reason


# Whatever comes


IDS = mostly(st.integers(0, 3))
NAMED: dict[str, st.SearchStrategy[Any]] = {
    "token_id": IDS,
    "token": mostly(st.just("token_id:1")),
    "logprob": mostly(st.floats(-30, 0)),
}
ENTRIES = mostly(objects(**NAMED, top_logprobs=mostly(st.lists(mostly(objects(**NAMED)), min_size=1, max_size=3))))
SPANS = mostly(objects(version=mostly(st.just("v")), start=mostly(st.integers(0, 4)), end=mostly(st.integers(0, 4))))
CHOICES = mostly(
    objects(
        token_ids=mostly(st.lists(IDS, max_size=3)),
        logprobs=mostly(objects(content=mostly(st.lists(ENTRIES, max_size=3)))),
        finish_reason=mostly(st.sampled_from([None, "stop", "abort"])),
        weight_versions=mostly(st.lists(SPANS, max_size=2)),
    )
)
ERRORS = mostly(objects(message=mostly(st.text(max_size=20)), code=mostly(st.integers(300, 700))))
EVENTS = mostly(objects(choices=mostly(st.lists(CHOICES, max_size=2)))) | objects(error=ERRORS)


def only_our_errors(payloads: list[bytes]) -> None:
    """Feed `payloads` and ask for all results: nothing but a `GatewayError` may come out."""
    for collector in (Collector(), Collector(top_logprobs=1)):
        for payload in payloads:
            with suppress(GatewayError):
                collector.feed(payload)
        for result in (collector.completion, collector.partial):
            with suppress(GatewayError):
                result()


@settings(deadline=None)
@given(st.lists(EVENTS, max_size=4))
def test_no_event_raises_anything_but_our_own_errors(events):
    """Events that are nearly right, and some that are not."""
    only_our_errors([orjson.dumps(item) for item in events])


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40) | st.sampled_from([DONE, b'{"choices": [', b"{}"]), max_size=4))
def test_no_bytes_raise_anything_but_our_own_errors(payloads):
    """Bytes that are no JSON at all."""
    only_our_errors(payloads)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2**32 - 1), st.floats(-9998, 0, width=32)), min_size=1, max_size=12), st.data()
)
def test_a_completion_does_not_depend_on_how_its_ids_were_cut_into_events(pairs, data):
    """Engines send one id at a time, eight, or all at once."""
    cuts = sorted(data.draw(st.sets(st.integers(1, len(pairs)))))
    collector = Collector()
    for start, end in zip([0, *cuts], [*cuts, len(pairs)], strict=True):
        part = pairs[start:end]
        collector.feed(event([i for i, _ in part], {"content": [named(i, value) for i, value in part]}))
    collector.feed(event([], None, finish_reason="stop"))
    assert [i for i, _ in pairs] == collector.completion().ids.tolist()
    assert [value for _, value in pairs] == collector.completion().logprobs.tolist()


@pytest.mark.parametrize("code", [400, 401, 403, 429, 500, 503])
def test_what_was_sampled_before_an_error_event_is_kept_whatever_its_code(code):
    """An error in the middle is no doubt about the evidence before it."""
    collector = fed(event())
    with pytest.raises(GatewayError) as caught:
        collector.feed(orjson.dumps({"error": {"message": "no", "code": code}}))

    assert not isinstance(caught.value, EngineProtocolError)
    partial = collector.partial()
    assert partial is not None
    assert partial.ids.tolist() == [5]
