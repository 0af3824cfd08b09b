"""A file of conversations, line by line to a file of masked rows."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import orjson

from gateway.errors import BadRequest, ClientError
from gateway.mask.rows import MaskedRow, Side, Unmaskable, rows_of, shortened
from gateway.render import registry
from gateway.render.options import NO_OPTIONS, Options
from gateway.wire import chat
from gateway.wire.noise import Noise

_NO_NOISE = Noise((), ())
"""These conversations are no client's requests: they are rendered as they stand."""
_Said = dict[str, Any]
_KNOWN = ("role", "content", "name", "tool_call_id", "weight")
_OF_ANSWERS = ("role", "content", "name", "reasoning_content", "reasoning", "tool_calls", "weight")
"""What of a message is looked at."""


class Faulty(Exception):
    """A conversation from which no row can be made; the text names it."""


class Conversations:
    """Makes rows with one model's renderer, and keeps count.

    Raises:
        ConfigError: the tokenizer or the renderer cannot be had.
    """

    def __init__(
        self, model: str, name: str, renderer: str, max_tokens: int | None, side: Side, *, options: Options = NO_OPTIONS
    ) -> None:
        tokenizer = registry.load_tokenizer(model, name)
        # Nothing is bridged here, and earlier thoughts stand in a prompt where the model's template has them.
        self._renderers, _ = registry.renderers_for(
            renderer, tokenizer, None, retention="template", bridgeless_ok=True, options=options
        )
        self._max_tokens = max_tokens
        self._side = side
        self._conversations = self._rows = self._ids = self._trained = 0
        self.notes: list[str] = []
        """What was left out and why, by line."""

    def masked(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """A line of JSON for each row; conversations count from 0, and empty lines do not. Lines count from 1.

        Raises:
            Faulty: a line is no conversation, an answer has no clear boundary, or a row is too long.
        """
        filled = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
        for index, (number, line) in enumerate(filled):
            try:
                rows = self._made(line)
            except (ClientError, Unmaskable) as error:
                raise Faulty(f"line {number}: {error}") from error
            self._conversations += 1
            kept = [row for row in rows if row.answers]
            if len(kept) < len(rows) or not rows:
                lost = f"{len(rows) - len(kept)} of {len(rows)} rows left out" if rows else "left out"
                self.notes.append(f"line {number}: {lost}, since nothing in it is trained")
            for row_index, row in enumerate(kept):
                yield self._line(index, row_index, row)

    def _made(self, line: bytes) -> list[MaskedRow]:
        said = _read(line)
        conversation = chat.decode(line, _NO_NOISE)
        untrained = [index for index, message in enumerate(said["messages"]) if not _is_trained(index, message)]
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


def _read(line: bytes) -> _Said:
    """A line's object, of which no key stands twice: which of two was meant, nobody knows."""
    try:
        said = json.loads(line, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"it is no JSON: {error}") from None
    if not isinstance(said, dict):
        raise BadRequest('it must be a JSON object, {"messages": […]}')
    return said


def _unique(pairs: list[tuple[str, object]]) -> _Said:
    read: _Said = dict(pairs)
    if len(read) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"the key {next(name for name in names if names.count(name) > 1)!r} stands twice in one object"
        )
    return read


def _is_trained(index: int, message: _Said) -> bool:
    """Whether the weight of a message does not keep it from being trained.

    Raises:
        BadRequest: it is no weight, or a field that would be left out holds text.
    """
    known = _OF_ANSWERS if message["role"] == "assistant" else _KNOWN
    for name, value in message.items():
        if name not in known and value and isinstance(value, str | list | dict):
            raise BadRequest(f"messages[{index}].{name} would be left out: known are {', '.join(known)}")
    weight = message.get("weight")
    if weight is not None and (isinstance(weight, bool) or weight not in (0, 1)):
        raise BadRequest(f"messages[{index}].weight must be 0 or 1")
    return weight != 0
