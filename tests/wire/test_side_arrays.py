"""What an engine sends beside ids and logprobs is what was asked for, of the positions asked for, or no turn."""

import base64
import io
from array import array

import numpy as np
import pytest

from gateway.core.rope import rope
from gateway.core.side_arrays import SideArray
from gateway.core.turn import Prompt
from gateway.errors import BadRequest, EngineProtocolError
from gateway.wire.collector import Collector
from gateway.wire.side_arrays import SideArraysAsked, asked_of, check_top_k
from tests.wire.events import event
from tests.wire.turns import turn

BOTH = SideArraysAsked(frozenset({"routed_experts", "sampling_mask"}), prompt_tokens=4, known_tokens=1)


def npy(positions=5, shape=(2, 2), dtype="|u1"):
    """Experts of so many positions, as vLLM writes them."""
    file = io.BytesIO()
    np.save(file, np.arange(positions * int(np.prod(shape))).reshape(positions, *shape).astype(dtype))
    return base64.b64encode(file.getvalue()).decode()


def fed(*events, asked=BOTH):
    """A collector that took `events`."""
    collector = Collector(None, asked)
    for payload in events:
        collector.feed(payload)
    return collector


def finished(ids=(5, 6, 7), **choice):
    """The whole answer to a prompt of four ids."""
    return event(ids, finish_reason="stop", **choice)


def test_both_arrays_are_kept_with_the_positions_that_they_speak_of():
    """Three sampled ids after four of a prompt, whose first is known: experts from the second to the last but one."""
    masks = [[5, 9], [6], [1, 2, 7]]
    collector = fed(
        event((5,), sampling_mask=masks[:1], routed_experts=None),
        event((6,), sampling_mask=masks[1:2]),
        finished((7,), sampling_mask=masks[2:], routed_experts=npy()),
    )

    assert collector.completion().side_arrays == {
        "routed_experts": SideArray(-3, "|u1", (5, 2, 2), bytes(range(20))),
        "sampling_mask": SideArray(0, "<u4", (6,), array("I", [5, 9, 6, 1, 2, 7]).tobytes(), array("I", [0, 2, 3, 6])),
    }


@pytest.mark.parametrize("dtype", ["|u1", "<u2", "<i4"])
def test_of_the_experts_of_a_whole_prompt_a_turn_keeps_its_own(dtype):
    """As they come from a release that cannot leave out what is known: a turn costs what it adds."""
    held = fed(finished(routed_experts=npy(6, dtype=dtype))).completion().side_arrays["routed_experts"]

    own = np.arange(4, 24).astype(dtype).tobytes()
    assert held == SideArray(-3, dtype, (5, 2, 2), own)


def test_what_an_engine_does_not_send_is_missing():
    """It was not started for it; a mask that comes with some ids only is none."""
    assert fed(finished(routed_experts=None, sampling_mask=None)).completion().side_arrays == {}
    assert fed(event((5,)), finished((6,), sampling_mask=[[6]])).completion().side_arrays == {}
    assert fed(event((5,), sampling_mask=[[5]]), finished((6,))).completion().side_arrays == {}


def test_what_was_not_asked_for_is_not_looked_at():
    """Be it as ill as it may."""
    ill = {"routed_experts": 5, "sampling_mask": "none"}

    assert fed(finished(**ill), asked=None).completion().side_arrays == {}
    assert fed(finished(routed_experts=npy()), asked=None).completion().side_arrays == {}


@pytest.mark.parametrize(
    ("experts", "why"),
    [
        (npy(4), r"shape \(4, 2, 2\), not of 5 positions"),
        (npy(7), "not of 5 positions"),
        (npy(5, (2,)), "layers and experts"),
        (npy(5, (0, 2)), "layers and experts"),
        (npy(5, (2, 0)), "layers and experts"),
        (npy(dtype="<i8"), "cannot be read: it holds <i8"),
        (npy()[:-8], "cannot be read"),
        ("&&&&", "cannot be read"),
        ("Zürich", "cannot be read"),
        ("", "it is no .npy"),
    ],
)
def test_experts_that_cannot_be_right_are_the_engines_fault(experts, why):
    """The error says what is wrong; of an aborted call everything else is kept."""
    collector = fed(finished(routed_experts=experts, sampling_mask=[[5], [6], [7]]))

    with pytest.raises(EngineProtocolError, match=why):
        collector.completion()
    partial = collector.partial()
    assert partial is not None
    assert (partial.ids.tolist(), partial.side_arrays) == ([5, 6, 7], {})


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        ({"routed_experts": ["AAAA"]}, "no text"),
        ({"sampling_mask": [[5]]}, "2 token ids but 1 sampling masks"),
        ({"sampling_mask": [[5], [6], [7]]}, "2 token ids but 3 sampling masks"),
        ({"sampling_mask": {"5": [5]}}, "no list of sampling masks"),
        ({"sampling_mask": [[5], 6]}, "token id 6 that is no list of ids"),
        ({"sampling_mask": [[5], [6, 1.0]]}, "no list of ids"),
        ({"sampling_mask": [[5], [6, True]]}, "no list of ids"),
        ({"sampling_mask": [[5], [6, -1]]}, "no list of ids"),
        ({"sampling_mask": [[5], [6, 1 << 32]]}, "no list of ids"),
        ({"sampling_mask": [[5], [5, 7]]}, "sampled token id 6, which its sampling mask leaves out"),
        ({"sampling_mask": [[5], []]}, "leaves out"),
    ],
)
def test_malformed_arrays_are_the_engines_fault_and_nothing_of_their_event_is_kept(choice, why):
    """An id that its own mask leaves out was not sampled so."""
    collector = fed(event((4,), sampling_mask=[[4]]))

    with pytest.raises(EngineProtocolError, match=why):
        collector.feed(event((5, 6), **choice))
    partial = collector.partial()
    assert partial is not None
    assert (partial.ids.tolist(), len(partial.side_arrays["sampling_mask"])) == ([4], 1)


def test_an_aborted_call_keeps_what_has_come():
    """Masks come with every event, experts only at the end."""
    partial = fed(event((5, 6), sampling_mask=[[5], [6, 7]])).partial()

    assert partial is not None
    assert list(partial.side_arrays) == ["sampling_mask"]


def test_what_waits_to_be_decoded_is_known_by_its_size():
    """So that it can be done elsewhere."""
    assert fed(event()).beside.large_bytes == 0
    assert fed(finished(routed_experts=npy())).beside.large_bytes == len(npy())


def test_a_bridged_turn_asks_for_the_experts_that_are_not_known():
    """From the last id that its base sampled, which nobody had read."""
    base = turn("one")
    rendered = Prompt([1, 2], rope([1, 2]), None, base.reason)
    bridged = Prompt([1, 2, 7, 8, 3], base.sequence.extended(array("I", [3])), base, None)

    assert asked_of(rendered, ["routed_experts"]) == SideArraysAsked(frozenset({"routed_experts"}), 2, 0)
    assert asked_of(bridged, ["routed_experts"]).routed_experts_prompt_start == 3
    assert asked_of(bridged, ["sampling_mask"]).routed_experts_prompt_start == 0


def test_a_top_k_bounds_what_masks_cost():
    """Where they are kept."""
    check_top_k(None, BOTH.names)
    check_top_k(4096, BOTH.names)
    check_top_k(4097, ["routed_experts"])
    with pytest.raises(BadRequest, match="4096"):
        check_top_k(4097, BOTH.names)
