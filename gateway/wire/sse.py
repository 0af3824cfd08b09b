"""Server-sent events: a byte stream into the payloads of its events."""

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")


class SSEDecoder:
    """Split a byte stream into the ``data`` payloads of its events.

    Chunk boundaries carry no meaning: feeding a stream whole or one byte at a time yields the same
    payloads. Lines end in LF, CRLF or CR. Comments and fields other than ``data`` are passed over, and an
    event that is not closed by a blank line is dropped, as the standard has it.
    """

    # Source: WHATWG HTML Living Standard, section 9.2.6 (interpreting an event stream).

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes; return the payloads that they complete."""
        buffer = self._rest + chunk
        # A CR at the end may be half of a CRLF: it waits for the byte behind it.
        held = b"\r" if buffer.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(buffer.removesuffix(held))
        self._rest = rest + held
        payloads = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                payloads.append(b"\n".join(self._data))
                self._data = []
        return payloads
