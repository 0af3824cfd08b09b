"""Server-sent events: payloads in, payloads out, whatever the bytes between them look like."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire.sse import KEEP_ALIVE, SSEDecoder, encode_event

ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
TEXT = st.binary(max_size=12).map(lambda raw: raw.replace(b"\r", b"").replace(b"\n", b""))
PAYLOADS = st.lists(TEXT, min_size=1, max_size=3).map(b"\n".join)
ASIDES = st.one_of(
    TEXT.map(lambda text: b":" + text),
    TEXT.map(lambda text: b"event: " + text),
    st.sampled_from([b"id: 7", b"retry: 3", b"event", b"dataset: x", b"Data: x", b" data: x", b"datax"]),
)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[bytes], bytes]:
    """Payloads, and a stream that carries them in one of its many spellings."""
    payloads = draw(st.lists(PAYLOADS, max_size=5))
    lines: list[bytes] = []
    for payload in payloads:
        lines += draw(st.lists(ASIDES | st.just(b""), max_size=2))
        for line in payload.split(b"\n"):
            # Without the space, a value must not begin with one.
            space = b"" if not line.startswith(b" ") and draw(st.booleans()) else b" "
            lines += [b"data:" + space + line, *draw(st.lists(ASIDES, max_size=1))]
        lines.append(b"")
    raw = b""
    for line in lines:
        end = draw(ENDS)
        # A bare LF after a CR would make one CRLF of the two.
        raw += line + (b"\r\n" if raw.endswith(b"\r") and line + end == b"\n" else end)
    return payloads, raw


def decode(chunks: list[bytes]) -> list[bytes]:
    """The payloads of a stream that came in `chunks`."""
    decoder = SSEDecoder()
    return [payload for chunk in chunks for payload in decoder.feed(chunk)]


@settings(deadline=None)
@given(streams(), st.data())
def test_payloads_do_not_depend_on_chunk_boundaries(stream, data):
    """However the network splits the stream, the same payloads come out; a partial event at its end does not."""
    payloads, raw = stream
    raw += b"data: cut off"
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)))) | {0, len(raw)})
    assert payloads == decode([raw[start:end] for start, end in pairwise(cuts)])


@settings(deadline=None)
@given(streams())
def test_a_stream_fed_byte_by_byte_is_the_stream_fed_whole(stream):
    """The finest split there is."""
    payloads, raw = stream
    raw += b"data: cut off"
    assert payloads == decode([raw]) == decode([bytes([byte]) for byte in raw])


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20), max_size=8))
def test_any_bytes_decode_to_the_same_whole_or_in_parts(chunks):
    """No input is an error, and no split tells."""
    assert decode([b"".join(chunks)]) == decode(chunks)


@pytest.mark.parametrize(
    ("raw", "payloads"),
    [
        (b"", []),
        (b"\n\n\n", []),
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a \n\n", [b" a "]),
        (b"data:\n\n", [b""]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r:", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
        (b": keep-alive\n\ndata: a\n\n", [b"a"]),
        (b"event: x\nid: 1\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"event: x\n\n", []),
        (b'data: {"a": "x: y"}\n\n', [b'{"a": "x: y"}']),
        (b"data: \xff\x00\n\n", [b"\xff\x00"]),
        (b"data: a\x0bb\x0cc\xc2\x85d\xe2\x80\xa8e\n\n", [b"a\x0bb\x0cc\xc2\x85d\xe2\x80\xa8e"]),
        (b"data: a", []),
        (b"data: a\n", []),
        (b"data: a\n\ndata: b\n", [b"a"]),
    ],
)
def test_a_stream_is_read_as_the_standard_has_it(raw, payloads):
    """Line ends, comments, other fields, and the partial event at the end that does not count."""
    assert payloads == decode([raw])


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_the_last_event_counts_with_any_line_end(end):
    """It is closed by its blank line; nothing need follow."""
    assert [b"[DONE]"] == decode([b"data: [DONE]" + end + end])


def test_a_crlf_split_between_two_chunks_is_one_line_end():
    """Its two halves do not make a blank line."""
    assert [b"a\nb"] == decode([b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n"])


def test_a_byte_order_mark_is_no_part_of_the_first_field():
    """The standard strips one from the head of a stream."""
    assert [b"a"] == decode([b"\xef\xbb\xbfdata: a\n\n"])


def test_a_data_field_without_a_colon_is_an_empty_line():
    """The standard takes the whole line as the field's name."""
    assert [b"\na"] == decode([b"data\ndata: a\n\n"])


def test_a_long_event_in_many_chunks_is_joined_once():
    """Megabytes in one event must not be read again with each chunk: the pieces wait until their line is whole."""
    decoder = SSEDecoder()
    assert decoder.feed(b"data: x") == []
    for _ in range(999):
        assert decoder.feed(b"y" * 10) == []

    assert len(decoder._rest) == 1000
    assert decoder.feed(b"\n\n") == [b"x" + b"y" * 9990]


@pytest.mark.parametrize("payload", [b"", b" a ", b"[DONE]", b'{"a": 1}'])
def test_an_event_that_is_written_is_read_again(payload):
    """And a comment before it or after it is nothing to its reader."""
    assert [payload, b"x"] == decode([KEEP_ALIVE, encode_event(payload), KEEP_ALIVE, encode_event(b"x")])
