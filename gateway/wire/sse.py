"""Server-sent events: a byte stream into the payloads of its events, and payloads into events."""

import codecs
import re

DONE = b"[DONE]"
"""The payload that ends a stream, as OpenAI and vLLM have it."""
KEEP_ALIVE = b": keep-alive\n\n"
"""A comment, which readers pass over."""
_LINE_END = re.compile(rb"\r\n|\n|\r")


def encode_event(payload: bytes) -> bytes:
    """An event with a payload of one line."""
    return b"data: " + payload + b"\n\n"


class SSEDecoder:
    """Split a byte stream into the ``data`` payloads of its events.

    Chunk boundaries carry no meaning: feeding a stream whole or one byte at a time yields the same
    payloads. Lines end in LF, CRLF or CR. Comments and fields other than ``data`` are passed over, and an
    event that is not closed by a blank line is dropped, as the standard has it.
    """

    # Source: WHATWG HTML Living Standard, section 9.2.6 (interpreting an event stream).

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # pieces of an unfinished line, joined only once it is whole
        self._after_cr = False
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes; return the payloads that they complete."""
        if not chunk:
            return []
        halved = self._after_cr and chunk.startswith(b"\n")  # a CRLF whose CR ended the chunk before
        self._after_cr = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(chunk[halved:])
        if lines:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest.clear()
        self._rest.append(rest)
        payloads = []
        for line in lines:
            name, _, value = line.removeprefix(codecs.BOM_UTF8).partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            elif not line and self._data:
                payloads.append(b"\n".join(self._data))
                self._data = []
        return payloads
