"""What is described of sampling parameters is what is read of them."""

from gateway.wire.chat import read_sampling
from gateway.wire.fields import parse_object
from tests.wire.bodies import Json, differing, fields_of, is_read


def read(body: bytes) -> object:
    """Read parameters."""
    return read_sampling(parse_object(body))


def test_parameters_are_described_as_they_are_read():
    """But for an empty `repetition_detection`, which asks for nothing."""
    assert list(differing("SamplingParams", read, {})) == [({"repetition_detection": {}}, True)]


def test_a_chat_request_has_all_of_them():
    """By the same names."""
    assert fields_of("SamplingParams") < fields_of("ChatRequest")


def test_patterns_are_described_as_they_are_read():
    """Sizes may be left out where they are read; without both nothing would be looked for."""

    def pattern(body: bytes) -> object:
        return read(b'{"repetition_detection": ' + body + b"}")

    whole: Json = {"max_pattern_size": 4096, "min_count": 2}
    found = list(differing("RepetitionDetection", pattern, whole))
    assert [body for body, is_taken in found if not is_taken] == []
    assert {field for body, _ in found for field in body} == {"max_pattern_size"}
    assert is_read(pattern, {**whole, "min_pattern_size": 4096})
