"""A few words of a message, from where it differs."""

from gateway.core.types import Message

WIDTH_CHARS = 60
_LEAD_CHARS = 12
"""Of what is still alike."""


def excerpts(before: Message | None, after: Message | None) -> tuple[str | None, str | None]:
    """What was said and what came back, each from a little before the first difference; ``None`` stays ``None``."""
    if before is None or after is None:
        return (cut(text_of(before)) if before else None), (cut(text_of(after)) if after else None)
    ours, theirs = text_of(before), text_of(after)
    alike = next((at for at, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(ours), len(theirs)) if alike is None else alike
    start = max(0, at - _LEAD_CHARS)
    return cut(ours, start), cut(theirs, start)


def text_of(message: Message) -> str:
    """All that a message says, on one line: thought, text, calls."""
    thought = f"<think>{message.reasoning}</think>" if message.reasoning else ""
    calls = "".join(f" {call.name}({call.arguments})#{call.id}" for call in message.tool_calls)
    answered = f"#{message.tool_call_id} " if message.tool_call_id else ""
    return f"{answered}{thought}{message.content}{calls}"


def cut(text: str, start: int = 0) -> str:
    """`WIDTH_CHARS` of a text, white space shown as it would be written."""
    piece = text[start : start + WIDTH_CHARS].replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return ("…" if start else "") + piece + ("…" if start + WIDTH_CHARS < len(text) else "")
