"""An engine's words about a request, without what they repeat of it."""

import re

_LOOKED_AT_CHARS = 4000
"""An echoed request can be long, and the patterns are slow."""
_SHOWN_CHARS = 300


def without_echo(text: str) -> str:
    """A message without what old versions put into it: the request, its token ids and file paths."""
    text = text[:_LOOKED_AT_CHARS]
    if re.match(r"\d+ validation error", text):
        complaints = [complaint for _, complaint in re.findall(r"'msg': (['\"])(.*?)\1, '", text)]
        text = "; ".join(dict.fromkeys(complaints)) or "the request is not valid"
    text = re.sub(r"\[(?:\s*-?\d+\s*,){2,}[^\]]*\]?", "[…]", text.partition("\n")[0])
    return re.sub(r"(/[\w.-]+){2,}", "…", text)[:_SHOWN_CHARS]


def tells_context_is_full(text: str) -> bool:
    """Whether a refusal means that the prompt, or prompt and answer, do not fit into the model's context."""
    return "maximum model length" in text or "maximum context length" in text
