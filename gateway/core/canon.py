"""When is a message that a client sends back the one that we recorded?

Real clients rewrite what they replay: they re-serialise arguments, drop or rename reasoning, strip or
empty the text beside a tool call. Taking such a turn for a new one would re-tokenize what was sampled;
taking a true rewrite for ours would put words into the model's mouth. So user, system and tool messages
must be equal, and assistant messages may differ from the recorded one only in the ways of `DIFFERENCES`.
On a match the recorded tokens win, and each accepted difference is kept on the turn.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

from gateway.core.types import Message, ToolCall, TurnRequest

DIFFERENCES = {
    "content_whitespace": "parsers and clients strip; the recorded tokens keep the white space that was sampled",
    "content_dropped": "some clients null the text beside tool calls; the ids of the calls prove which turn it is",
    "reasoning_dropped": "most clients cannot replay reasoning; what the model thought is in the recorded tokens",
    "reasoning_added": "reasoning that we never sent cannot be ours; the recorded tokens go without it",
    "reasoning_whitespace": "as for content",
    "arguments_reserialised": "equal as JSON; the recorded tokens keep the model's own spelling",
    "tool_call_id_missing": "position, name and arguments agree, and nothing contradicts",
    "ambiguous_sibling": "several answers to one prompt fit alike: the latest of them was taken",
    "reasoning_ignored": "only with the policy role_content: whoever chose it vouches for the client",
    "calls_ignored": "likewise",
}
"""The closed set of accepted differences, and why each is safe."""

Policy = Literal["strict", "canonical", "role_content"]
"""What may differ: nothing; what `DIFFERENCES` has; reasoning and calls altogether, and white space around the text."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How often a kind of difference was accepted in one history, and what it concerns."""

    messages: int
    tokens: int
    """Sampled tokens of the answers that came back so: they stand in the prompt for what the client sent."""


@dataclass(frozen=True, slots=True)
class Root:
    """The lineage that a turn belongs to: what stands above its messages, as canonical JSON.

    Turns of different roots never extend each other, since each part is rendered before, or around, everything else.
    """

    model: str
    template_kwargs: str
    tools: str
    system: str
    sent: str = field(compare=False)
    """Tools and leading system messages in the agent's own spelling, as JSON: what a renderer is given."""


def root_of(request: TurnRequest) -> Root:
    """The lineage root of a request: its model, template arguments, tools and leading system messages."""
    system, _ = split_system(request.messages)
    return Root(
        model=request.model or "",
        template_kwargs=canonical_json(dict(request.template_kwargs)),
        tools=canonical_json(list(request.tools)),
        system=canonical_json([message.content for message in system]),
        sent=json.dumps({"tools": request.tools, "system": [_sent(message) for message in system]}),
    )


def _sent(message: Message) -> dict[str, str]:
    return {"content": message.content} | ({} if message.name is None else {"name": message.name})


def split_system(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """The leading system messages, and the rest."""
    count = next((i for i, message in enumerate(messages) if message.role != "system"), len(messages))
    return messages[:count], messages[count:]


def identity(message: Message) -> tuple[object, ...]:
    """What tells a message from every other; a `name` does not, since clients add and drop it at will."""
    if message.role != "assistant":
        return message.role, message.content, message.tool_call_id
    return message.content, message.reasoning, message.tool_calls


def gist(message: Message) -> bytes:
    """A digest of what clients keep of an assistant message: its stripped text and its calls, spelt canonically."""
    calls = [(call.name, _canonical_arguments(call.arguments)) for call in message.tool_calls]
    return blake2b(repr((message.content.strip(), calls)).encode(), digest_size=16).digest()


def accepted_differences(recorded: Message, replayed: Message, policy: Policy = "canonical") -> tuple[str, ...] | None:
    """The differences by which `replayed` may still be `recorded`; ``None`` when it is another message."""
    kinds = _ignoring(recorded, replayed) if policy == "role_content" else _canonical(recorded, replayed)
    return None if kinds and policy == "strict" else kinds


def _ignoring(recorded: Message, replayed: Message) -> tuple[str, ...] | None:
    if recorded.content.strip() != replayed.content.strip():
        return None
    calls = _call_differences(recorded.tool_calls, replayed.tool_calls)
    reasoning = _reasoning_differences(recorded.reasoning, replayed.reasoning)
    return (
        *(("content_whitespace",) if recorded.content != replayed.content else ()),
        *(("reasoning_ignored",) if reasoning is None else reasoning),
        *(("calls_ignored",) if calls is None else calls),
    )


def _canonical(recorded: Message, replayed: Message) -> tuple[str, ...] | None:
    calls = _call_differences(recorded.tool_calls, replayed.tool_calls)
    if calls is None:
        return None
    kinds = list(calls)
    if recorded.content != replayed.content:
        if recorded.content.strip() == replayed.content.strip():
            kinds.append("content_whitespace")
        elif not replayed.content.strip() and recorded.tool_calls and "tool_call_id_missing" not in calls:
            kinds.append("content_dropped")
        else:
            return None
    reasoning = _reasoning_differences(recorded.reasoning, replayed.reasoning)
    return None if reasoning is None else (*kinds, *reasoning)


def _reasoning_differences(ours: str | None, theirs: str | None) -> tuple[str, ...] | None:
    if ours and theirs:
        if ours.strip() != theirs.strip():
            return None
        return ("reasoning_whitespace",) if ours != theirs else ()
    return ("reasoning_dropped",) if ours else ("reasoning_added",) if theirs else ()


def _call_differences(recorded: Sequence[ToolCall], replayed: Sequence[ToolCall]) -> tuple[str, ...] | None:
    if len(recorded) != len(replayed):
        return None
    if not recorded:
        return ()
    kinds = set()
    for ours, theirs in zip(recorded, replayed, strict=True):
        if ours.name != theirs.name or theirs.id not in ("", ours.id):  # before the arguments, which cost more
            return None
        if not same_arguments(ours.arguments, theirs.arguments):
            return None
        if not theirs.id:
            kinds.add("tool_call_id_missing")
        if ours.arguments != theirs.arguments:
            kinds.add("arguments_reserialised")
    return tuple(sorted(kinds))


def same_arguments(ours: str, theirs: str) -> bool:
    """Whether two argument texts say the same as JSON; texts that are not plain JSON are compared as they are."""
    return ours == theirs or _canonical_arguments(ours) == _canonical_arguments(theirs)


def _canonical_arguments(text: str) -> str:
    try:
        return canonical_json(json.loads(text or "{}", object_pairs_hook=_unique))  # NaN and infinities fail there
    except (ValueError, RecursionError, OverflowError):
        return text


def canonical_json(value: object) -> str:
    """One spelling for each JSON value: keys sorted, ``1`` and ``1.0`` alike, ``1`` and ``true`` not."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{canonical_json(key)}:{canonical_json(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(canonical_json, value)) + "]"
    return json.dumps(value, allow_nan=False)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("duplicate key")
    return dict(pairs)
