"""Routed experts and sampling masks as vLLM sends them when it was started for it."""

import base64
import io

import numpy as np
import pytest

from gateway.sim.side_arrays import routed_experts


def experts(choice):
    """The array that a choice carries."""
    file = io.BytesIO(base64.b64decode(choice["routed_experts"]))
    array = np.load(file, allow_pickle=False)
    again = io.BytesIO()
    np.save(again, array)
    assert file.getvalue() == again.getvalue()
    return array


async def test_experts_are_those_of_all_ids_but_the_last(start):
    """Three of the prompt and two of three sampled ones; the same in a stream, at its end."""
    sim = await start(routed_experts=(2, 4))
    whole = await sim.whole(sim.ask([5, 6, 7]))
    *before, last = await sim.choices(sim.ask([5, 6, 7], stream=True))

    assert experts(whole).shape == (5, 2, 4)
    assert experts(last).tolist() == experts(whole).tolist()
    assert before
    assert {choice["routed_experts"] for choice in before} == {None}


async def test_experts_begin_where_they_are_wanted(start):
    """What is known of a prompt is not sent again."""
    sim = await start(routed_experts=(2, 4))
    every, late = [await sim.whole(sim.ask([5, 6], routed_experts_prompt_start=first)) for first in (0, 3)]

    assert experts(late).tolist() == experts(every).tolist()[3:]


async def test_experts_that_begin_beyond_the_prompt_are_refused(start):
    """As the engine does."""
    sim = await start(routed_experts=(2, 4))
    response = await sim.post(sim.ask([5], routed_experts_prompt_start=4))

    assert (response.status, (await response.json())["error"]["param"]) == (400, "routed_experts_prompt_start")


async def test_experts_came_whole_before_they_came_in_streams(start):
    """0.22 and 0.24 were the releases."""
    sim = await start(version="0.23.0", routed_experts=(2, 4))

    assert experts(await sim.whole(sim.ask([5]))).shape == (3, 2, 4)
    assert {choice["routed_experts"] for choice in await sim.choices(sim.ask([5, 6], stream=True))} == {None}


async def test_masks_come_with_each_event_and_hold_the_sampled_ids(start):
    """No more of them than top_k allows."""
    sim = await start(sampling_mask=True)
    choices = await sim.choices(sim.ask([5, 600, 7], top_k=4, stream=True))
    masks = [mask for choice in choices for mask in choice["sampling_mask"] or []]

    assert masks == [[3, 4, 5, 6], [598, 599, 600, 601], [5, 6, 7, 8]]


@pytest.mark.parametrize("params", [{}, {"top_k": 0}, {"top_k": 5, "temperature": 0}])
async def test_masks_need_a_top_k_and_a_temperature(start, params):
    """Of every request, once the engine was started for it."""
    sim = await start(sampling_mask=True)
    response = await sim.post(sim.ask([5], **params))

    assert response.status == 400
    assert "sampling distribution replay" in (await response.json())["error"]["message"]


async def test_nothing_is_said_without_the_flags(start):
    """The keys are there, and null."""
    sim = await start()
    choice = await sim.whole(sim.ask([5], top_k=4))

    assert (choice["routed_experts"], choice["sampling_mask"]) == (None, None)


async def test_a_prompt_has_the_logprobs_that_it_was_sampled_with(start):
    """So that an audit of what was sampled here finds no gap."""
    sim = await start()
    sampled = await sim.whole(sim.ask([5, 6, 7]))
    body = sim.ask([8], prompt_logprobs=0)
    response = await (await sim.post({**body, "token_ids": [1, 2, 3, 5, 6, 7]})).json()

    assert [entry["logprob"] for entry in sampled["logprobs"]["content"]] == [
        entry[str(token_id)]["logprob"]
        for token_id, entry in zip((5, 6, 7), response["prompt_logprobs"][3:], strict=True)
    ]


def test_experts_are_always_those_of_the_same_ids_at_the_same_positions():
    """Whoever stitches parts gets the whole."""
    assert routed_experts([1, 2, 3, 4], 0, 2, 3) == routed_experts([1, 2, 3, 9], 0, 2, 3)
