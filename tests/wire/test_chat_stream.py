"""A chat answer that is streamed, chunk by chunk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from openai.types.chat import ChatCompletionChunk

from gateway.core.alternatives import Alternatives
from gateway.core.turn import Turn
from gateway.core.types import (
    Completion,
    Evidence,
    FinishReason,
    Message,
    ToolCall,
    TurnRequest,
    deltas,
    float32s,
    token_ids,
)
from gateway.errors import ContextLengthExceeded, EngineUnavailable
from gateway.wire.chat_answer import encode, encode_error
from gateway.wire.chat_stream import ChatStream as stream  # noqa: N813  # a dialect's word
from gateway.wire.pieces import PIECE_CHARS, pieces
from gateway.wire.sse import SSEDecoder
from tests.wire.turns import completion, text_of, turn

GOLDEN = Path(__file__).parent / "golden" / "chat_stream"
CALLS = (ToolCall("call_1", "look", '{"a": 1}', own_id="functions.look:0"), ToolCall("call_2", "go", ""))
ASKED = TurnRequest(messages=(), model="m", stream=True)
EVIDENCE = TurnRequest(messages=(), model="m", stream=True, return_token_ids=True, top_logprobs=0)


@dataclass
class Said:
    """A call whose choices were recorded, and are said once more."""

    turns: Sequence[Turn]
    prompt_ids: Sequence[int] = (1, 2)
    evidence: list[Evidence] = field(init=False)

    def __post_init__(self) -> None:
        self.evidence = [one.completion.evidence for one in self.turns]

    @property
    def turn_ids(self) -> list[str]:
        return [one.id for one in self.turns]


def spoken(turns: Sequence[Turn], request: TurnRequest, upto: Callable[[int], int] = lambda _at: 0) -> list[bytes]:
    """The parts of a whole stream; `upto` is how many ids are known to have been read with delta number such."""
    answer = stream(Said(turns), request, created_s=1_700_000_000, text_of=text_of)
    parts = [answer.opening()]
    for index, one in enumerate(turns):
        for at, delta in enumerate(deltas(one.message)):
            parts += answer.say(pieces(index, [delta], upto(at)))
    return [*parts, *answer.closing(turns)]


def events(parts: Sequence[bytes]) -> list[dict[str, Any]]:
    """The chunks of a whole stream, each one that OpenAI's SDK accepts."""
    *payloads, done = SSEDecoder().feed(b"".join(parts))
    assert done == b"[DONE]"
    for payload in payloads:
        ChatCompletionChunk.model_validate_json(payload, strict=True)
    return [orjson.loads(payload) for payload in payloads]


def choices(parts: Sequence[bytes], index: int = 0) -> list[dict[str, Any]]:
    """What the chunks say of one choice."""
    return [one for event in events(parts) for one in event["choices"] if one["index"] == index]


def answer(content: str, reasoning: str | None = None, *calls: ToolCall, sampled: Completion | None = None) -> Turn:
    """A recorded turn."""
    said = Message("assistant", content, reasoning=reasoning, tool_calls=calls)
    return turn("t1", answer=said, completion=sampled or completion(7, 8, 9))


STREAMS = {
    "content": spoken([answer("hi")], ASKED),
    "length": spoken([answer("h", sampled=completion(7, finish=FinishReason.LENGTH))], ASKED),
    "everything": spoken(
        [answer("see", "so", *CALLS)],
        TurnRequest((), model="m", stream=True, include_usage=True, return_token_ids=True, top_logprobs=0),
        lambda at: at,
    ),
    "two_choices": spoken([answer("a"), answer("b", None, *CALLS[:1])], TurnRequest((), stream=True, n=2)),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_written_as_its_golden_file_says(name):
    """Byte for byte, the role first and `[DONE]` last."""
    assert b"".join(STREAMS[name]).decode() == (GOLDEN / f"{name}.txt").read_text("utf-8")


def test_every_golden_stream_is_tested():
    """No file is left over."""
    assert sorted(STREAMS) == sorted(file.stem for file in GOLDEN.glob("*.txt"))


@pytest.mark.parametrize("top_logprobs", [None, 0])
@pytest.mark.parametrize("return_token_ids", [False, True])
def test_the_chunks_join_to_the_answer_that_is_not_streamed(top_logprobs, return_token_ids):
    """Ids and logprobs too, wherever the pieces were cut; and why it ended."""
    recorded = [answer("see", "so", *CALLS, sampled=completion(*range(700)))]
    request = TurnRequest((), top_logprobs=top_logprobs, return_token_ids=return_token_ids, stream=True)
    whole = orjson.loads(encode(recorded, request, created_s=0, text_of=text_of))
    said = choices(spoken(recorded, request, lambda at: 100 * at))

    for name in ("reasoning_content", "reasoning", "content"):
        assert "".join(one["delta"].get(name) or "" for one in said) == whole["choices"][0]["message"][name]
    calls = [{**call} for one in said for call in one["delta"].get("tool_calls", ())]
    assert [call.pop("index") for call in calls] == [0, 1]
    assert calls == whole["choices"][0]["message"]["tool_calls"]
    entries = [entry for one in said if one["logprobs"] for entry in one["logprobs"]["content"]]
    assert entries == (whole["choices"][0]["logprobs"] or {"content": []})["content"]
    ids = [token_id for one in said for token_id in one.get("token_ids", ())]
    assert ids == whole["choices"][0].get("token_ids", [])
    assert [one["finish_reason"] for one in said] == [None] * (len(said) - 1) + ["tool_calls"]


def test_evidence_comes_with_what_the_ids_made_certain_and_the_rest_at_the_end():
    """Nothing twice, and nothing of ids that were not read."""
    said = choices(spoken([answer("see", "so", sampled=completion(*range(5)))], EVIDENCE, lambda at: [2, 2][at]))

    assert [one.get("token_ids") for one in said] == [None, [0, 1], None, [2, 3, 4]]
    assert [len(one["logprobs"]["content"]) if one["logprobs"] else 0 for one in said] == [0, 2, 0, 3]


@pytest.mark.parametrize(("alternatives", "most"), [(None, 256), (0, 256), (20, 12)])
def test_no_chunk_holds_more_evidence_than_fits(alternatives, most):
    """Neither beside a text that many ids made certain, nor at the end."""
    ids = range(600)
    beside = Alternatives(20, token_ids([*range(20)] * len(ids)), float32s([-1.0] * 20 * len(ids)))
    recorded = [answer("hi", sampled=replace(completion(*ids), alternatives=beside))]
    request = TurnRequest((), return_token_ids=True, top_logprobs=alternatives, stream=True)
    said = [one for one in choices(spoken(recorded, request, lambda _at: 300)) if "token_ids" in one]

    assert [token_id for one in said for token_id in one["token_ids"]] == list(ids)
    assert max(len(one["token_ids"]) for one in said) == most
    assert said[0]["delta"] == {"content": "hi"}


def test_long_arguments_go_on_under_the_index_of_their_call():
    """Its id, type and name come once."""
    long = '{"a": "' + "x" * PIECE_CHARS + '"}'
    calls = (ToolCall("call_1", "look", long), ToolCall("call_2", "look", long))
    said = [
        call
        for one in choices(spoken([answer("", None, *calls)], ASKED))
        for call in one["delta"].get("tool_calls", ())
    ]

    assert [(call["index"], call.get("id")) for call in said] == [(0, "call_1"), (0, None), (1, "call_2"), (1, None)]
    assert said[0]["function"]["arguments"] + said[1]["function"]["arguments"] == long
    assert said[1].keys() == {"index", "function"}
    assert said[1]["function"].keys() == {"arguments"}


@pytest.mark.parametrize("error", [EngineUnavailable("cut"), ContextLengthExceeded("too long")])
def test_a_failure_is_an_event_with_the_error_and_not_the_end(error):
    """In the same words as an answer of its own."""
    failure = stream(Said([answer("hi")]), ASKED, created_s=0, text_of=text_of).failure(error)

    assert SSEDecoder().feed(failure) == [encode_error(error)]
