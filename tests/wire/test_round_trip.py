"""What goes out and comes back is the same, whatever it says and however it was cut on the way."""

from itertools import pairwise

import orjson
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.types import (
    Completion,
    FinishReason,
    Message,
    ToolCall,
    TurnRequest,
    VersionSpan,
    float32s,
    token_ids,
)
from gateway.wire import chat
from gateway.wire.collector import Collector
from gateway.wire.sse import DONE, SSEDecoder
from tests.wire.anything import JSON
from tests.wire.turns import text_of, turn

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
CALLS = st.lists(
    st.builds(
        ToolCall,
        id=TEXT,
        name=TEXT.filter(bool),
        arguments=TEXT | st.dictionaries(TEXT, JSON, max_size=3).map(lambda value: orjson.dumps(value).decode()),
    ),
    max_size=3,
).map(tuple)
SAMPLED = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.floats(-9998, 0, width=32)), min_size=1, max_size=12)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Messages of every role, as `decode` may return them."""
    asked = st.builds(Message, st.sampled_from(["system", "user"]), TEXT, name=st.none() | TEXT)
    tool = st.builds(Message, st.just("tool"), TEXT, tool_call_id=TEXT)
    return draw(st.lists(asked | tool | answers(), min_size=1, max_size=4))


def answers() -> st.SearchStrategy[Message]:
    """What a model can have said; an empty thought is none."""
    thoughts = st.none() | TEXT.filter(bool)
    return st.builds(Message, st.just("assistant"), TEXT, reasoning=thoughts, tool_calls=CALLS)


def written(message: Message) -> dict[str, object]:
    """A message as a client writes it that keeps all of it."""
    if message.role == "assistant":
        answer = orjson.loads(chat.encode([turn("t", answer=message)], TurnRequest(()), created_s=0, text_of=text_of))
        return dict(answer["choices"][0]["message"])
    optional = {"tool_call_id": message.tool_call_id, "name": message.name}
    return {"role": message.role, "content": message.content, **{k: v for k, v in optional.items() if v is not None}}


@given(histories())
def test_a_history_that_is_decoded_encoded_and_replayed_is_the_same(messages):
    """An agent that keeps what it is told is always recognised."""
    once = chat.decode(orjson.dumps({"messages": [written(message) for message in messages]})).messages
    again = chat.decode(orjson.dumps({"messages": [written(message) for message in once]})).messages
    assert tuple(messages) == once == again


@given(st.dictionaries(TEXT, JSON, max_size=3))
def test_arguments_that_come_back_as_an_object_say_the_same(arguments):
    """Some clients parse them and never write them out again."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    (message,) = chat.decode(orjson.dumps({"messages": [{"role": "assistant", "tool_calls": [call]}]})).messages
    assert arguments == orjson.loads(message.tool_calls[0].arguments)


@st.composite
def completions(draw: st.DrawFn) -> Completion:
    """Any completion that an engine can finish, with versions that change midway."""
    ids, logprobs = zip(*draw(SAMPLED), strict=True)
    bounds = [0, *sorted(draw(st.sets(st.integers(1, len(ids)))) - {len(ids)}), len(ids)]
    spans = tuple(VersionSpan(f"v{start}", start, end) for start, end in pairwise(bounds))
    reason = draw(st.sampled_from([FinishReason.STOP, FinishReason.LENGTH, FinishReason.REPETITION]))
    return Completion(token_ids(ids), float32s(logprobs), reason, spans)


@st.composite
def events(draw: st.DrawFn, sampled: Completion) -> list[bytes]:
    """The events of a call: ids cut anyhow, named in either way; the end in an event of its own, or with the last ids."""
    cuts = [0, *sorted(draw(st.sets(st.integers(1, len(sampled.ids)))) | {len(sampled.ids)})]
    choices = [choice(sampled, start, end, newer=draw(st.booleans())) for start, end in pairwise(cuts)]
    if draw(st.booleans()):
        choices.append({"index": 0, "token_ids": []})
    versions = [{"version": span.version, "start": span.start, "end": span.end} for span in sampled.spans]
    choices[-1] |= {"finish_reason": sampled.finish_reason.value, "weight_versions": versions}
    return [*(orjson.dumps({"choices": [item]}) for item in choices), DONE]


def choice(sampled: Completion, start: int, end: int, *, newer: bool) -> dict[str, object]:
    """The ids from `start` to `end`, as 0.32 writes them, or as the versions before."""
    part = list(zip(sampled.ids[start:end], sampled.logprobs[start:end], strict=True))
    content = [{"token_id": i} if newer else {"token": f"token_id:{i}"} for i, _ in part]
    logprobs = [{**name, "logprob": value} for name, (_, value) in zip(content, part, strict=True)]
    return {"index": 0, "token_ids": [i for i, _ in part], "logprobs": {"content": logprobs}}


@given(completions(), st.data())
def test_a_completion_is_the_same_however_it_was_cut_into_events_and_chunks(sampled, data):
    """From the engine's events over a stream in pieces to the ids, logprobs, versions and reason that it sent."""
    raw = b"".join(b"data: " + payload + b"\n\n" for payload in data.draw(events(sampled)))
    cuts = [0, *sorted(data.draw(st.sets(st.integers(1, len(raw)), max_size=8)) | {len(raw)})]
    decoder, collector = SSEDecoder(), Collector()
    for start, end in pairwise(cuts):
        for payload in decoder.feed(raw[start:end]):
            collector.feed(payload)
    assert collector.done
    assert sampled == collector.completion()
