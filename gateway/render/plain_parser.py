"""An answer that is text alone, since a grammar bound all of it: no marker in it means anything."""

from collections.abc import Collection, Sequence

from gateway.render.decoder import Decoder
from gateway.render.parsed import Delta, Parsed
from gateway.render.protocol import Tokenizer
from gateway.render.stop_ids import length_to_stop
from gateway.render.stream_parser import PAST_STOP


class PlainParser:
    """Fulfils `gateway.render.protocol.StreamParser`: tells the text up to the first stop id, to the last space."""

    def __init__(self, tokenizer: Tokenizer, stop_ids: Collection[int]) -> None:
        self._decoder = Decoder(tokenizer)
        self._stop_ids = stop_ids
        self._is_over = self._is_past_stop = False
        self._told: list[str] = []

    def feed(self, token_ids: Sequence[int]) -> list[Delta]:
        """Take the next ids; the text that is certain now."""
        if self._is_over:
            self._is_past_stop |= bool(token_ids)
            return []
        end = length_to_stop(token_ids, self._stop_ids)
        self._is_over, self._is_past_stop = end < len(token_ids), end + 1 < len(token_ids)
        return self._say(self._decoder.feed(token_ids[:end]))

    def finish(self) -> Parsed:
        """No more ids will come: the whole text."""
        self._say(self._decoder.finish())
        return Parsed("".join(self._told), None, (), (PAST_STOP,) if self._is_past_stop else ())

    def _say(self, text: str) -> list[Delta]:
        self._told.append(text)
        return [Delta(content=text)] if text else []
