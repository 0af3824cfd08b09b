"""Conversations as rows for supervised training, each trained id in the context in which it would be sampled.

What an answer is, two renders say: of the messages before it with the opening of an answer, and of the messages up
to it. The second begins with the first, and goes on with the ids that the model is to say. No template is read, so
a renderer of any family will do. Where a later prompt does not begin with the row so far, since the template has
rewritten what was said before (it leaves old thoughts out), that prompt begins another row, as in the ledger.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gateway.core.types import Message, Tools, TurnRequest
from gateway.errors import RendererError
from gateway.render.translator import Translator

Side = Literal["left", "right", "refuse"]


class Unmaskable(Exception):
    """No row can be made: an answer has no clear boundary, or the row is too long; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Span:
    """The ids ``[start, end)`` of a row are what the model is to say in one message."""

    message: int
    start: int
    end: int


@dataclass(slots=True)
class MaskedRow:
    """A conversation, or the part of one that a single prompt shows, with the answers to train in it."""

    token_ids: list[int]
    answers: list[Span] = field(default_factory=list)
    """What is trained, in order."""
    cut_tokens: int = 0
    """Ids that were cut off to keep it short."""

    def loss_mask(self) -> list[int]:
        """1 for each id that is trained; shape ``(L,)``."""
        mask = [0] * len(self.token_ids)
        for span in self.answers:
            mask[span.start : span.end] = [1] * (span.end - span.start)
        return mask


def rows_of(translator: Translator, conversation: TurnRequest, untrained: Collection[int] = ()) -> list[MaskedRow]:
    """The rows of a conversation: each answer is trained in one of them, save those at the indices `untrained`.

    Raises:
        Unmaskable: what the model says in a message cannot be told apart from the template around it, or the
            renderer refuses the messages up to there.
    """
    rows: list[MaskedRow] = []
    for index, message in enumerate(conversation.messages):
        if message.role != "assistant" or index in untrained:
            continue
        try:
            prompt, sampled = _boundary(translator, conversation.messages[: index + 1], conversation.tools)
        except (RendererError, Unmaskable) as error:
            reason = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
            raise Unmaskable(f"message {index}: {reason}") from error
        if not rows or prompt[: len(rows[-1].token_ids)] != rows[-1].token_ids:
            rows.append(MaskedRow([]))
        rows[-1].token_ids = prompt + sampled
        rows[-1].answers.append(Span(index, len(prompt), len(prompt) + len(sampled)))
    return rows


def _boundary(translator: Translator, messages: Sequence[Message], tools: Tools) -> tuple[list[int], list[int]]:
    """The prompt of the last message, and the ids that say it up to and with the stop id."""
    prompt = translator.render(messages[:-1], tools)
    whole = translator.render(messages, tools, opened=False)
    if whole[: len(prompt)] != prompt:
        raise Unmaskable(
            "the messages up to and with it do not begin as the prompt for it does, so the model would have been asked "
            "for something else (does the template open a thought that this answer does not have?)"
        )
    said = whole[len(prompt) :]
    stops = [at for at, token_id in enumerate(said) if token_id in translator.stop_ids]
    if not stops:
        return prompt, [*said, _opener(translator, messages, tools)]
    if len(stops) > 1:
        raise Unmaskable("several stop ids stand in it, and the model would have ended at the first")
    return prompt, said[: stops[0] + 1]


def _opener(translator: Translator, messages: Sequence[Message], tools: Tools) -> int:
    """The stop id that ends the last message where a template shows none: then the opening of the next is one.

    Asked without the thought, which a template may leave out as soon as something follows.
    """
    answer = replace(messages[-1], reasoning=None)
    calls = answer.tool_calls
    following = Message("tool", "?", tool_call_id=calls[0].id, name=calls[0].name) if calls else Message("user", "?")
    before = translator.render([*messages[:-1], answer], tools, opened=False)
    after = translator.render([*messages[:-1], answer, following], tools, opened=False)
    opener = after[len(before)] if len(after) > len(before) and after[: len(before)] == before else None
    if opener is None or opener not in translator.stop_ids:
        raise Unmaskable("no stop id ends it, nor does the opening of a message after it")
    return opener


def shortened(row: MaskedRow, max_tokens: int, side: Side) -> MaskedRow:
    """A row of at most `max_tokens` ids, cut on one side; what is left of its answers may be nothing.

    Raises:
        Unmaskable: it is longer, and the side is ``refuse``.
    """
    excess = len(row.token_ids) - max_tokens
    if excess <= 0:
        return row
    if side == "refuse":
        raise Unmaskable(f"a row has {len(row.token_ids)} ids, more than --max-tokens {max_tokens}")
    first = excess if side == "left" else 0
    moved = [Span(span.message, max(0, span.start - first), min(max_tokens, span.end - first)) for span in row.answers]
    kept = [span for span in moved if span.start < span.end]
    return MaskedRow(row.token_ids[first : first + max_tokens], kept, excess)
