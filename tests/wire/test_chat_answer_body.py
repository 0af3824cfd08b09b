"""Chat answers are written as they are described."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import orjson
import pytest

from gateway import errors
from gateway.core.types import FinishReason, Message, ToolCall
from gateway.wire import chat_answer_body as bodies
from gateway.wire.chat_answer import encode_error, finish_reason
from gateway.wire.sse import DONE, SSEDecoder
from tests.wire.bodies import validator
from tests.wire.turns import completion, turn

GOLDEN = Path(__file__).parent / "golden"
WHOLE, STREAMED = sorted((GOLDEN / "chat").iterdir()), sorted((GOLDEN / "chat_stream").iterdir())


@pytest.mark.parametrize("file", WHOLE, ids=lambda file: file.stem)
def test_an_answer_is_as_it_is_described(file: Path):
    """Each of those that the codec's own tests hold it to."""
    validator("ChatCompletion").validate(orjson.loads(file.read_bytes()))


@pytest.mark.parametrize("file", STREAMED, ids=lambda file: file.stem)
def test_each_chunk_of_a_stream_is_as_it_is_described(file: Path):
    """Up to the end, which is a word."""
    *chunks, end = SSEDecoder().feed(file.read_bytes())
    assert end == DONE
    for chunk in chunks:
        validator("ChatCompletionChunk").validate(orjson.loads(chunk))
    assert chunks


def test_an_answer_that_has_more_is_not_as_it_is_described():
    """So what is written and not described is found."""
    whole = orjson.loads(WHOLE[0].read_bytes())
    assert not validator("ChatCompletion").is_valid(whole | {"more": 1})
    assert not validator("ChatCompletion").is_valid({name: value for name, value in whole.items() if name != "usage"})


def test_an_answer_ends_for_one_of_the_reasons_that_are_described():
    """Whatever an engine says, and whether there are calls or none."""
    call = Message("assistant", "", tool_calls=(ToolCall("call_1", "f", "{}"),))
    turns = [
        turn("t", answer=said, completion=completion(7, finish=why)) for why in FinishReason for said in (call, None)
    ]
    assert {finish_reason(one) for one in turns} == set(get_args(bodies.FinishReason))


def kinds(kind: type[errors.GatewayError]) -> Iterator[type[errors.GatewayError]]:
    """An error and all that are errors of its kind."""
    yield kind
    for narrower in kind.__subclasses__():
        yield from kinds(narrower)


@pytest.mark.parametrize("kind", list(kinds(errors.GatewayError)))
def test_every_error_is_as_it_is_described(kind: type[errors.GatewayError]):
    """All those that have an answer, with a field at fault or without."""
    error = errors.LogprobsUntold("no", rest_s=1.0) if kind is errors.LogprobsUntold else kind("no", param="x")
    validator("ErrorBody").validate(orjson.loads(encode_error(error)))
