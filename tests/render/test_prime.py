"""What PrimeIntellect's real Qwen3 renderer does that the gateway must catch."""

import pytest

from gateway.core.ledger import Ledger
from gateway.core.prompt import build_prompt
from gateway.core.types import (
    Answer,
    Completion,
    FinishReason,
    Message,
    Origin,
    TurnRequest,
    VersionSpan,
    float32s,
    token_ids,
)
from gateway.render.registry import resolve
from tests.core.sampled import HOW
from tests.render.doubles import read


@pytest.fixture(scope="module")
def translator(qwen):
    return resolve("auto", qwen, None, retention="all", bridgeless_ok=False)[0].get({})


def second_turn(translator, qwen, text, *, finish=FinishReason.STOP):
    """Sample `text` as the first turn; build the prompt of the next one."""
    ledger, ask = Ledger(), Message("user", "q")
    pending = ledger.prepare(TurnRequest((ask,)))
    ids = qwen.encode(text, add_special_tokens=False)
    logprobs, spans = float32s([-1.0] * len(ids)), (VersionSpan("unknown", 0, len(ids)),)
    prompt = build_prompt(translator, pending)
    answer = read(translator, ids, prompt.ids, (), lambda: "call_0").message
    completion = Completion(token_ids(ids), logprobs, finish, spans)
    turn = pending.seal("t", prompt, completion, Answer(answer), Origin("e", 0), **HOW)
    pending.commit(turn)
    return turn, build_prompt(translator, ledger.prepare(TurnRequest((ask, answer, Message("user", "more")))))


@pytest.mark.parametrize("text", ["ok<|im_end|>\nfoo", "ok<|im_end|>more text", "a<|im_end|>b<|im_end|>c"])
def test_a_bridge_that_drops_what_was_sampled_after_an_early_close_is_caught(translator, qwen, text):
    """The package cuts at the last turn close; the turn is rendered in full instead, and says why."""
    _, prompt = second_turn(translator, qwen, text)

    assert (prompt.base, prompt.reason) == (None, "bridge_unproven")


@pytest.mark.parametrize(
    ("text", "finish"),
    [
        ("ok<|im_end|>", FinishReason.STOP),
        ("<think>\nhm\n</think>\n\nok<|im_end|>", FinishReason.STOP),
        ("cut in the mid", FinishReason.LENGTH),
        ("<think>\ncut while thinking", FinishReason.LENGTH),
        ("ok<|endoftext|>", FinishReason.STOP),
    ],
)
def test_a_proven_bridge_keeps_every_sampled_id(translator, qwen, text, finish):
    """Also behind a truncated answer, whose close is synthesised and is not trained."""
    turn, prompt = second_turn(translator, qwen, text, finish=finish)

    known = turn.prompt_ids() + turn.completion.ids
    assert prompt.base is turn
    assert known.tolist() == prompt.ids[: len(known)]


def test_a_stop_inside_open_thinking_is_not_bridged(translator, qwen):
    """The package declines; the history is rendered."""
    _, prompt = second_turn(translator, qwen, "<think>\nhm<|im_end|>")

    assert (prompt.base, prompt.reason) == (None, "bridge_declined")
