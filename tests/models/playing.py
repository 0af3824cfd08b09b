"""Stories, played through the ledger, as the gateway would: each turn's prompt is built from what was sampled before."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from gateway.core.ledger import Ledger, PendingTurn
from gateway.core.prompt import build_prompt
from gateway.core.turn import Prompt, Turn
from gateway.core.types import (
    Answer,
    Completion,
    FinishReason,
    Message,
    Origin,
    TurnRequest,
    VersionSpan,
    float32s,
    token_ids,
)
from gateway.errors import BadRequest, RendererError
from gateway.render.reading import Reading
from gateway.render.translator import Translator
from tests.core.sampled import HOW
from tests.models.spelling import Pen, Sampled
from tests.models.stories import Beat, Oddity, Story


@dataclass(frozen=True, slots=True)
class Step:
    """How the prompt behind an answer was built."""

    pending: PendingTurn
    prompt: Prompt
    parent: Turn
    oddity: Oddity
    """Of the answer."""

    @property
    def known(self) -> tuple[list[int], list[int]]:
        """The prompt of the answer, and the answer."""
        return self.parent.prompt_ids().tolist(), self.parent.completion.ids.tolist()

    @property
    def follows_tools(self) -> bool:
        """Whether a tool's result is among what is new."""
        return any(message.role == "tool" for message in self.pending.extension())


def steps(translator: Translator, pen: Pen, story: Story) -> Iterator[Step]:
    """Every turn of a story but the first. One with a late system message that the renderer refuses ends it."""
    ledger, noise, ids = Ledger(), story.noise(), count()
    system = [Message("system", story.system)] if story.system is not None else []
    messages, parent, oddity = [*system, Message("user", story.ask)], None, story.beats[0].oddity
    for beat in story.beats:
        request = TurnRequest(tuple(messages), tools=story.tools)
        pending = ledger.prepare(request)
        try:
            prompt = build_prompt(translator, pending)
        except (BadRequest, RendererError):
            if any(message.role == "system" for message in messages[1:]):
                return
            raise
        if parent is not None:
            yield Step(pending, prompt, parent, oddity)
        sampled = pen.write(beat, noise)
        reading = Reading(translator, prompt.ids, request, lambda: f"call_{next(ids):024}")
        reading.feed(sampled.ids)
        parent, oddity = _recorded(pending, prompt, sampled, reading.finish().answer), beat.oddity
        messages += [parent.message, *_sent(parent.message, beat)]


def _recorded(pending: PendingTurn, prompt: Prompt, sampled: Sampled, answer: Answer) -> Turn:
    ids = token_ids(sampled.ids)
    spans, finish = (VersionSpan("unknown", 0, len(ids)),), FinishReason.STOP
    if sampled.truncated:
        finish = FinishReason.LENGTH
    completion = Completion(ids, float32s([-1.0] * len(ids)), finish, spans)
    turn = pending.seal(f"t{id(pending)}", prompt, completion, answer, Origin("e", 0), **HOW)
    pending.commit(turn)
    return turn


def _sent(answer: Message, beat: Beat) -> list[Message]:
    """What an agent sends then: a result for each call that it was given, or else the user's next words."""
    texts = (*beat.results, *["42"] * len(answer.tool_calls))
    results = [
        Message("tool", text, tool_call_id=call.id) for call, text in zip(answer.tool_calls, texts, strict=False)
    ]
    system = [Message("system", beat.system)] if beat.system is not None else []
    asks = beat.asks if results or beat.asks else ("Go on.",)
    return [*results, *system, *(Message("user", text) for text in asks)]
