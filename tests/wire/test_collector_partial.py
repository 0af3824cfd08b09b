"""Which policy sampled what, and what is left of a call that failed."""

from typing import Any

import orjson
import pytest

from gateway.core.types import FinishReason, VersionSpan
from gateway.errors import EngineProtocolError
from gateway.wire.collector import Collector
from tests.wire.events import DONE, beside, event, fed, named, seen


def with_spans(*spans: object, ids: Any = (5, 6, 7, 8)) -> Collector:
    """A collector that took a finished answer whose versions are `spans`."""
    return fed(event(ids, finish_reason="stop", weight_versions=list(spans)))


def span(start: Any, end: Any, version: Any = "v1") -> dict[str, object]:
    """A version span as the engine writes it."""
    return {"version": version, "start": start, "end": end}


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


def test_a_version_that_is_too_long_for_a_header_is_no_evidence():
    """It is named, and what was sampled is kept without it."""
    fed(event([5], finish_reason="stop", weight_versions=[span(0, 1, "v" * 256)])).completion()
    collector = fed(event([5], finish_reason="stop", weight_versions=[span(0, 1, "v" * 257)]))
    with pytest.raises(EngineProtocolError, match="257 characters, vvvv"):
        collector.completion()
    partial = collector.partial()
    assert partial
    assert [kept.version for kept in partial.spans] == ["unknown"]


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


# Calls that go on


@pytest.mark.parametrize("top_logprobs", [None, 1])
def test_a_call_that_goes_on_adds_to_the_evidence_and_tells_of_its_own_ids(top_logprobs):
    """The whole is what a client is shown, the rest what this call sampled."""
    entries = [beside(token_id, named(token_id), named(99)) for token_id in (5, 6, 7)]
    first = fed(event([5], {"content": entries[:1]}), top_logprobs=top_logprobs)
    partial = first.partial()
    second = Collector(top_logprobs, before=first.evidence)
    second.feed(event([6, 7], {"content": entries[1:]}, finish_reason="stop", weight_versions=[span(0, 2)]))

    assert partial is not None
    assert (partial.ids.tolist(), second.completion().ids.tolist()) == ([5], [6, 7])
    assert (second.count, second.evidence.ids.tolist(), first.evidence) == (2, [5, 6, 7], second.evidence)
    assert second.completion().spans == (VersionSpan("v1", 0, 2),)

    second.retract()
    assert (second.count, second.evidence, second.partial()) == (0, partial.evidence, None)


def test_a_call_that_goes_on_and_says_nothing_is_no_completion():
    """Though the answer has ids."""
    second = Collector(before=fed(event([5])).evidence)
    second.feed(event([], finish_reason="stop"))
    assert second.partial() is None
    with pytest.raises(EngineProtocolError, match="without a sampled token"):
        second.completion()


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8}}, 8),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, None),
        ({"prompt_tokens": 9}, None),
        ({"prompt_tokens_details": {"cached_tokens": "8"}}, None),
        (None, None),
        ([], None),
    ],
)
def test_what_was_cached_is_known_where_the_engine_says_it(usage, cached):
    """Only some do, and it is no error."""
    collector = fed(event([5], finish_reason="stop"), orjson.dumps({"choices": [], "usage": usage}), DONE)
    assert (collector.cached_tokens, collector.completion().ids.tolist()) == (cached, [5])
