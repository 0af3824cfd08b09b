"""What engines send, against what real ones sent, and against what none should send."""

from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import EngineError, EngineProtocolError, EngineUnavailable, GatewayError
from gateway.wire.collector import Collector
from gateway.wire.engine_error import decode_error
from tests.wire.anything import golden, mostly, objects
from tests.wire.events import DONE, event, fed, named, seen


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
        assert collector.count == len(partial.ids)
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
