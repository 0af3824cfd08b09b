"""In which style an answer with tool calls must be given to a template, so that it writes all of the calls."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallStyle:
    """What templates do not agree on; by default as OpenAI's clients send it, but for the empty text."""

    no_content: str | None = ""
    """What stands for the text of an answer that is calls alone. DeepSeek-V3's template leaves out the calls unless
    it is ``None``; others join it to a text."""
    objects: bool = False
    """Whether arguments are given as objects: to templates that would quote their JSON text, or go through them."""

    def content(self, text: str, *, has_calls: bool) -> str | None:
        """The content of an answer that says `text`."""
        return text or (self.no_content if has_calls else "")

    def arguments(self, text: str) -> object:
        """The arguments of a call, given as JSON text; what is no object stays text."""
        if not self.objects:
            return text or "{}"
        try:
            value = json.loads(text or "{}")
        except (ValueError, RecursionError):
            return text
        return value if isinstance(value, dict) else text


USUAL = CallStyle()
"""That of most templates."""
