"""OpenAI's chat completions, streamed: role first, then what is said, then why it ended, and ``[DONE]``.

The chunks of one answer join to what `gateway.wire.chat.encode` writes of it. Evidence that a client asked for,
logprobs and token ids, comes with the piece that the ids made certain, and what is left of it at the end.
"""

from collections.abc import Iterable, Iterator, Sequence

import orjson

from gateway.core.turn import Turn
from gateway.core.types import JsonObject, TurnRequest
from gateway.errors import GatewayError
from gateway.wire.chat_answer import encode_error, encoded_call, evidence, finish_reason, usage
from gateway.wire.pieces import Piece, Saying, TextOf
from gateway.wire.sse import DONE, encode_event

_EVIDENCE_ENTRIES = 256
"""Most entries of logprobs in one chunk, alternatives among them: some 25 KB."""


class ChatStream:
    """One streamed chat answer."""

    def __init__(self, saying: Saying, request: TurnRequest, *, created_s: int, text_of: TextOf) -> None:
        self._saying = saying
        self._request = request
        self._text_of = text_of
        self._sent = [0] * len(saying.turn_ids)
        # How many ids of each choice have had their evidence sent.
        self._calls = [0] * len(saying.turn_ids)
        self._asks = request.return_token_ids or request.top_logprobs is not None
        self._most = max(1, _EVIDENCE_ENTRIES // (1 + (request.top_logprobs or 0)))
        # How many ids of a choice have their evidence in one chunk.
        self._head = {
            "id": f"chatcmpl-{saying.turn_ids[0]}",
            "object": "chat.completion.chunk",
            "created": created_s,
            "model": request.model or "",
        }

    def opening(self) -> bytes:
        """Who speaks; with the prompt's ids where they are asked for."""
        asked = {"prompt_token_ids": list(self._saying.prompt_ids)} if self._request.return_token_ids else {}
        chunks = []
        for index in range(len(self._sent)):
            delta = {"role": "assistant", "content": ""}
            chunks.append(self._chunk([_choice(index, delta)], **(asked if index == 0 else {})))
        return b"".join(chunks)

    def say(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        """One chunk a piece, and more where its evidence does not fit in."""
        for piece in pieces:
            choice = _choice(piece.index, self._delta(piece))
            yield self._chunk([{**choice, **self._evidence(piece.index, piece.upto)}])
            yield from self._evidence_alone(piece.index, piece.upto)

    def closing(self, turns: Sequence[Turn]) -> Iterator[bytes]:
        """The evidence that is left, why each choice ended, the count of tokens where it is asked for, and the end."""
        for index, turn in enumerate(turns):
            length = len(turn.completion.ids)
            yield from self._evidence_alone(index, length - self._most)
            last = {**_choice(index, {}), **self._evidence(index, length), "finish_reason": finish_reason(turn)}
            yield self._chunk([last])
        if self._request.include_usage:
            yield self._chunk([], usage=usage(turns))
        yield encode_event(DONE)

    def failure(self, error: GatewayError) -> bytes:
        """The error, in place of an end."""
        return encode_event(encode_error(error))

    def _delta(self, piece: Piece) -> JsonObject:
        if piece.kind == "reasoning":
            return {"reasoning_content": piece.text, "reasoning": piece.text}
        if piece.kind == "content":
            return {"content": piece.text}
        self._calls[piece.index] += piece.call is not None
        more = encoded_call(piece.call, piece.text) if piece.call else {"function": {"arguments": piece.text}}
        return {"tool_calls": [{"index": self._calls[piece.index] - 1, **more}]}

    def _evidence_alone(self, index: int, upto: int) -> Iterator[bytes]:
        while some := self._evidence(index, upto):
            yield self._chunk([{**_choice(index, {}), **some}])

    def _evidence(self, index: int, upto: int) -> JsonObject:
        """What is asked for of the next ids up to number `upto`, as much as one chunk holds."""
        start = self._sent[index]
        end = min(upto, start + self._most)
        if not self._asks or end <= start:
            return {}
        self._sent[index] = end
        return evidence(self._saying.evidence[index].part(start, end), self._request, self._text_of)

    def _chunk(self, choices: Sequence[JsonObject], **more: object) -> bytes:
        counted = {"usage": None} if self._request.include_usage else {}
        return encode_event(orjson.dumps({**self._head, "choices": choices, **counted, **more}))


def _choice(index: int, delta: JsonObject) -> dict[str, object]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
