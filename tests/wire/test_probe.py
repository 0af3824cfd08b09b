"""What two answers at two temperatures say of an engine's logprobs."""

import math

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.alternatives import Alternatives
from gateway.core.types import Completion, FinishReason, VersionSpan, float32s, token_ids
from gateway.wire.probe import NOT_ASKED, LogprobsFinding, encode_probe, mode_of, unknown_by


def answer(named: dict[int, float]) -> Completion:
    """A completion of one id, with what is named beside it."""
    ids, values = token_ids(list(named)), float32s(list(named.values()))
    likely = Alternatives(len(ids), ids, values)
    return Completion(ids[:1], values[:1], FinishReason.LENGTH, (VersionSpan("unknown", 0, 1),), likely)


def softmax(logits: list[float], temperature: float) -> list[float]:
    """Logprobs of all tokens."""
    scaled = [logit / temperature for logit in logits]
    total = math.log(sum(map(math.exp, scaled)))
    return [value - total for value in scaled]


def top(values: list[float], sampled: int) -> dict[int, float]:
    """The sampled token, and the likeliest four beside it."""
    order = sorted(range(len(values)), key=lambda token: -values[token])
    chosen = [sampled, *(token for token in order if token != sampled)][:5]
    return {token: min(0.0, values[token]) for token in chosen}


@given(st.lists(st.floats(-8, 8), min_size=7, max_size=30), st.data())
def test_both_modes_are_told_from_whatever_was_sampled(logits, data):
    """For any model whose likeliest tokens are not all alike."""
    values = sorted(logits, reverse=True)
    if values[0] - values[3] < 0.01:
        return
    tokens = st.integers(0, len(logits) - 1)
    cold, warm = data.draw(tokens), data.draw(tokens)
    first, raw, processed = softmax(logits, 1), softmax(logits, 1), softmax(logits, 2)

    assert mode_of(answer(top(first, cold)), answer(top(raw, warm))) == LogprobsFinding("raw")
    assert mode_of(answer(top(first, cold)), answer(top(processed, warm))) == LogprobsFinding("processed")


FIRST = {5: -1.0, 6: -2.0, 7: -3.0}


def test_a_small_model_is_told_as_well():
    """Its likeliest tokens are all but alike; a token that only one answer names does not matter."""
    cold = {5: -11.9, 6: -11.9025, 7: -11.905}
    assert mode_of(answer(cold), answer(cold)) == LogprobsFinding("raw")
    assert mode_of(answer(cold), answer({8: -12.5, 5: -11.9, 6: -11.90125, 7: -11.9025})) == LogprobsFinding(
        "processed"
    )


@pytest.mark.parametrize(
    ("cold", "warm", "why"),
    [
        (FIRST, {5: -0.5, 6: -0.6, 7: -0.7}, "none"),
        ({5: -0.1, 6: -0.2}, FIRST, "none"),
        ({5: -15.0, 6: -16.0, 7: -17.0}, {5: -7.5, 6: -8.0, 7: -8.5}, "too unlikely"),
        (FIRST, {5: -15.0, 6: -16.0, 7: -17.0}, "too unlikely"),
        (FIRST, {5: -9999.0, 6: -9999.0, 7: -9999.0}, "same tokens"),
        (FIRST, {5: -1.0, 8: -2.0}, "same tokens"),
        (FIRST, {5: -1.0, 6: -9999.0, 7: -9999.0}, "same tokens"),
        ({5: -2.0, 6: -2.0005, 7: -2.0009}, {5: -2.0, 6: -2.0005, 7: -2.0009}, "as likely"),
        (FIRST, {5: -1.0, 6: -1.7, 7: -2.5}, "0.75 times"),
        (FIRST, {5: -1.0, 6: -2.0, 7: -5.0}, "2.00 times"),
        ({5: -1.0, 6: -2.8, 7: -3.0}, {5: -1.0, 6: -1.9, 7: -3.0}, "1.00 times"),
    ],
)
def test_what_behaves_like_neither_is_unknown(cold, warm, why):
    """And the reason is told: no logprobs at all, nothing to compare, gaps that say nothing or something else."""
    found = mode_of(answer(cold), answer(warm))
    assert found.mode == "unknown"
    assert why in found.reason


def test_old_releases_are_known_not_to_tell():
    """To ask them once more would not help; one that does not say what it is may tell."""
    for version in ((0, 20), (0, 21)):
        found = unknown_by(version)
        assert found is not None
        assert (found.mode, found.answered) == ("unknown", True)
    assert (unknown_by((0, 22)), unknown_by((1, 0)), unknown_by(None)) == (None, None, None)


def test_a_probe_is_the_smallest_call_that_tells():
    """One token, with four beside it; the prompt and its temperature as given."""
    body = orjson.loads(encode_probe([1, 2], 2.0))
    asked = body["sampling_params"]
    assert (body["token_ids"], asked["temperature"], asked["max_tokens"], asked["logprobs"]) == ([1, 2], 2.0, 1, 5)
    assert asked["top_k"] >= asked["logprobs"]  # which engines that return sampling masks insist on


def test_a_finding_weighs_what_it_tells():
    """A mode outweighs that there is none to be told; that, an answer that is none; and that, no answer."""
    none, vain, raw = LogprobsFinding("unknown"), LogprobsFinding("unknown", answered=False), LogprobsFinding("raw")
    assert NOT_ASKED.weight < vain.weight < none.weight < raw.weight == LogprobsFinding("processed").weight
