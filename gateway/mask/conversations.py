"""A file of conversations, line by line to a file of masked rows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict

import orjson

from gateway.errors import ClientError
from gateway.mask.rows import MaskedRow, Side, Unmaskable, rows_of, shortened
from gateway.render import registry
from gateway.wire import chat
from gateway.wire.noise import Noise

_NO_NOISE = Noise((), ())
"""These conversations are no client's requests: they are rendered as they stand."""


class Faulty(Exception):
    """A conversation from which no row can be made; the text names it."""


class Conversations:
    """Makes rows with one model's renderer, and keeps count.

    Raises:
        ConfigError: the tokenizer or the renderer cannot be had.
    """

    def __init__(self, model: str, name: str, renderer: str, max_tokens: int | None, side: Side) -> None:
        tokenizer = registry.load_tokenizer(model, name)
        # Nothing is bridged here, and earlier thoughts stand in a prompt where the model's template has them.
        self._renderers, _ = registry.resolve(renderer, tokenizer, None, retention="template", bridgeless_ok=True)
        self._max_tokens = max_tokens
        self._side = side
        self._conversations = self._rows = self._ids = self._trained = 0
        self.notes: list[str] = []
        """What was left out and why, by conversation."""

    def masked(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """A line of JSON for each row; conversations count from 0, and empty lines do not.

        Raises:
            Faulty: a line is no conversation, an answer has no clear boundary, or a row is too long.
        """
        for index, line in enumerate(line for line in lines if line.strip()):
            try:
                rows = self._made(line)
            except (ClientError, Unmaskable) as error:
                raise Faulty(f"conversation {index}: {error}") from error
            self._conversations += 1
            kept = [row for row in rows if row.answers]
            if len(kept) < len(rows) or not rows:
                lost = f"{len(rows) - len(kept)} of {len(rows)} rows left out" if rows else "left out"
                self.notes.append(f"conversation {index}: {lost}, since nothing in it is trained")
            for row_index, row in enumerate(kept):
                yield self._line(index, row_index, row)

    def _made(self, line: bytes) -> list[MaskedRow]:
        conversation = chat.decode(line, _NO_NOISE)
        said: Mapping[str, list[Mapping[str, object]]] = orjson.loads(line)
        untrained = [index for index, message in enumerate(said["messages"]) if message.get("weight") == 0]
        rows = rows_of(self._renderers.get(conversation.template_kwargs), conversation, untrained)
        return rows if self._max_tokens is None else [shortened(row, self._max_tokens, self._side) for row in rows]

    def _line(self, index: int, row_index: int, row: MaskedRow) -> bytes:
        mask = row.loss_mask()
        self._rows, self._ids, self._trained = self._rows + 1, self._ids + len(mask), self._trained + sum(mask)
        told = {"answers": [asdict(span) for span in row.answers], "cut_tokens": row.cut_tokens}
        masked = {"index": index, "row_index": row_index, "token_ids": row.token_ids, "loss_mask": mask, **told}
        return orjson.dumps(masked, option=orjson.OPT_APPEND_NEWLINE)

    def summary(self) -> str:
        """What was made."""
        made = f"{self._conversations} conversations, {self._rows} rows"
        return f"{made}, {self._trained} of {self._ids} ids trained"
