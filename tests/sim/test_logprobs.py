"""The sim's logprobs are those of a distribution, in both of vLLM's modes."""

import math

import pytest

from gateway.sim.logprobs import logprob, logprobs


@pytest.mark.parametrize("temperature", [0.01, 0.5, 1.0, 2.0, 100.0])
def test_named_tokens_are_no_more_than_certain(temperature):
    """Whichever of them was sampled."""
    for token_id in range(997):
        values = logprobs(0, token_id, 20, temperature)
        assert all(value <= 0 for value in values)
        assert sum(map(math.exp, values)) <= 1 + 1e-6


def test_at_temperature_1_the_sampled_one_is_what_it_always_was():
    """At 0 as well: there is no temperature to divide by."""
    for at, token_id in ((0, 5), (7, 995), (31, 0)):
        assert logprobs(at, token_id, 5, 1.0)[0] == pytest.approx(logprob(at, token_id), abs=1e-6)
        assert logprobs(at, token_id, 5, 0.0) == logprobs(at, token_id, 5, 1.0)


async def test_a_processed_gap_is_divided_by_the_temperature_and_a_raw_one_is_not(start):
    """As vLLM's modes of these names are."""
    for mode, factor in (("raw_logprobs", 1.0), ("processed_logprobs", 0.5)):
        sim = await start(logprobs_mode=mode)
        gaps = []
        for temperature in (1, 2.0):
            [entry] = (await sim.whole(sim.ask([5], logprobs=5, temperature=temperature)))["logprobs"]["content"]
            gaps.append(entry["top_logprobs"][0]["logprob"] - entry["top_logprobs"][4]["logprob"])
        assert gaps[1] == pytest.approx(gaps[0] * factor, rel=1e-4)


async def test_a_mode_that_vllm_has_not_is_refused(start):
    """By its name."""
    with pytest.raises(ValueError, match="cooked"):
        await start(logprobs_mode="cooked")
