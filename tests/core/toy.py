"""A toy renderer and the shortest way to take turns with it: one id a character, one marker a role."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import Any

from gateway.core.ledger import Ledger, PendingTurn
from gateway.core.prompt import build_prompt
from gateway.core.side_arrays import SideArray
from gateway.core.turn import Turn
from gateway.core.types import (
    Answer,
    Completion,
    EndedBy,
    FinishReason,
    Flag,
    JsonObject,
    Labels,
    Message,
    Origin,
    Status,
    ToolCall,
    TurnRequest,
    VersionSpan,
    float32s,
    token_ids,
)
from tests.core.sampled import HOW

CLOSE, OPEN = 2, 7
MARKERS = {"system": 3, "user": 4, "assistant": 5, "tool": 6}


@dataclass
class ToyRenderer:
    """Renders exactly, bridges always; `declines`, `drops` and `silent` make it misbehave."""

    declines: bool = False
    drops: int = 0
    silent: bool = False
    bridged: list[Sequence[Message]] = field(default_factory=list)
    histories: list[Sequence[Message]] = field(default_factory=list)
    """What each bridge was told of the messages before."""
    rendered: list[Sequence[Message]] = field(default_factory=list)

    def render(self, messages: Sequence[Message], tools: Sequence[JsonObject]) -> list[int]:
        self.rendered.append(messages)
        ids = [100 + len(tools)]
        for message in messages:
            ids += said(message)
        return [*ids, MARKERS["assistant"], OPEN]

    def bridge(
        self,
        prompt_ids: list[int],
        completion_ids: list[int],
        new_messages: Sequence[Message],
        tools: Sequence[JsonObject],
        history: Sequence[Message] = (),
    ) -> list[int] | None:
        if self.declines:
            return None
        self.bridged.append(new_messages)
        self.histories.append(history)
        if self.silent:
            return prompt_ids + completion_ids
        known = (prompt_ids + completion_ids)[: len(prompt_ids + completion_ids) - self.drops]
        return [*known, *(i for message in new_messages for i in said(message)), MARKERS["assistant"], OPEN]


def said(message: Message) -> list[int]:
    """A message's ids; a call shows its id, as some templates do."""
    text = message.content + (message.tool_call_id or "") + "".join(call.id + call.name for call in message.tool_calls)
    return [MARKERS[message.role], *(1000 + ord(character) for character in text), CLOSE]


def completion(
    text: str,
    *,
    finish: FinishReason = FinishReason.STOP,
    versions: Sequence[str] = (),
    side_arrays: Mapping[str, SideArray] | None = None,
) -> Completion:
    """An id for each character, and one more; each sampled by one of `versions`, or all by the same."""
    ids = [*(2000 + ord(character) for character in text), CLOSE]
    logprobs = [-0.5 - (i % 7) for i in ids]
    runs = [(version, len(list(run))) for version, run in groupby(versions or ["1"] * len(ids))]
    ends = accumulate(length for _, length in runs)
    spans = tuple(VersionSpan(name, end - length, end) for (name, length), end in zip(runs, ends, strict=True))
    return Completion(token_ids(ids), float32s(logprobs), finish, spans, side_arrays=side_arrays or {})


def user(text: str) -> Message:
    return Message("user", text)


def tool(text: str, call_id: str = "call_1") -> Message:
    return Message("tool", text, tool_call_id=call_id)


def assistant(text: str = "", *calls: ToolCall, reasoning: str | None = None) -> Message:
    return Message("assistant", text, reasoning=reasoning, tool_calls=calls)


@dataclass
class Talk:
    """One session's ledger, a renderer, and numbered turn ids."""

    ledger: Ledger = field(default_factory=Ledger)
    renderer: ToyRenderer = field(default_factory=ToyRenderer)

    def take(
        self,
        *messages: Message,
        answer: Message | None = None,
        status: Status = "complete",
        finish: FinishReason = FinishReason.STOP,
        flags: tuple[Flag, ...] = (),
        tools: tuple[JsonObject, ...] = (),
        model: str = "m",
        template_kwargs: JsonObject | None = None,
        labels: Labels | None = None,
        versions: Sequence[str] = (),
        side_arrays: Mapping[str, SideArray] | None = None,
        sampled: Completion | None = None,
    ) -> Turn:
        """Take one turn that answers `messages`."""
        above: dict[str, Any] = {"model": model, "tools": tools, "template_kwargs": template_kwargs or {}}
        request = TurnRequest(messages, labels=labels or Labels(), **above)
        finish = FinishReason.ABORT if status == "aborted" else finish
        answer = answer or assistant(f"answer {len(self.ledger.turns)}")
        if sampled is None:
            sampled = completion(answer.content, finish=finish, versions=versions, side_arrays=side_arrays)
        return self.finish(self.ledger.prepare(request), answer=answer, sampled=sampled, flags=flags)

    def finish(
        self,
        pending: PendingTurn,
        *,
        answer: Message | None = None,
        sampled: Completion | None = None,
        flags: tuple[Flag, ...] = (),
    ) -> Turn:
        """Build the prompt of a prepared turn, sample and record it."""
        prompt = build_prompt(self.renderer, pending)
        answer = answer or assistant(f"answer {len(self.ledger.turns)}")
        sampled = sampled or completion(answer.content)
        ended: EndedBy = "tool_calls" if answer.tool_calls else "stop"
        how = HOW | {"ended_by": "client_gone" if sampled.finish_reason is FinishReason.ABORT else ended}
        turn = pending.seal(f"t{len(self.ledger.turns)}", prompt, sampled, Answer(answer, flags), Origin("e", 0), **how)
        pending.commit(turn)
        return turn
