"""Which form of an answer a client takes."""

import pytest

from gateway.errors import BadRequest
from gateway.wire.accept import negotiated

JSON, LINES = "application/json", "application/x-ndjson"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ([], JSON),
        ([""], JSON),
        (["*/*"], JSON),
        (["application/*"], JSON),
        ([JSON], JSON),
        ([LINES], LINES),
        (["Application/X-NDJSON"], LINES),
        ([f"{LINES}, {JSON}"], LINES),
        ([LINES, JSON], LINES),
        ([f"*/*, {LINES}"], LINES),
        ([f"{JSON};q=0.5, {LINES}"], LINES),
        ([f"{JSON};q=0.5", f"{LINES} ; Q=0.6"], LINES),
        ([f"*/*;q=0.1, {LINES};q=0.2"], LINES),
        ([f"application/*;q=0.3, text/*;q=0.9, {LINES};q=0.2"], JSON),
        (["text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8"], JSON),
        ([f"{LINES};charset=utf-8"], LINES),
        ([f"{LINES};charset=utf-8;q=0.5;more=1, {JSON};q=0.4"], LINES),
        ([f"text/html, {LINES};q=0.001"], LINES),
        ([f"nonsense, {LINES}"], LINES),
        ([f"{JSON};q=high, {LINES};q=0.9"], JSON),
        ([", ,", ""], JSON),
    ],
)
def test_a_client_gets_what_it_likes_best(accept, expected):
    """Of equals the one that it names first, and what it names before what it does not mind."""
    assert negotiated(accept, (JSON, LINES)) == expected


@pytest.mark.parametrize(
    "accept", [["text/html"], [f"{JSON};q=0"], ["*/*;q=0"], ["application/*;q=0.0, text/*"], ["nonsense", ";;q=1"]]
)
def test_a_client_that_takes_none_is_told_what_there_is(accept):
    """With 406."""
    with pytest.raises(BadRequest) as caught:
        negotiated(accept, (JSON, LINES))
    assert caught.value.status == 406
    assert JSON in caught.value.message
    assert LINES in caught.value.message
