"""How models mark their thoughts: what is known of it stands here once."""

import re

THOUGHTS = (
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
)
"""What opens and what ends a thought."""
OPENERS = (*(opener for opener, _ in THOUGHTS), "<|think|>")
"""What opens one; the last is ended by the end of a message."""
_EMPTY = (rf"{re.escape(opener)}\s*{re.escape(closer)}" for opener, closer in THOUGHTS)
EMPTY = re.compile(rf"(?:{'|'.join(_EMPTY)})\s*")
"""A thought that says nothing."""
OPENED = re.compile(rf"(?:{'|'.join(map(re.escape, OPENERS))})\s*$")
"""A thought that is open at the end of a text."""


def unthought(said: str, thought: object) -> str:
    """What was said behind a thought, which may have been opened by the prompt, and may have been empty."""
    text = EMPTY.sub("", said)
    if isinstance(thought, str) and thought.strip():
        text = text.partition(thought.strip())[2] or text
    text = text.lstrip()
    for _, closer in THOUGHTS:
        text = text.removeprefix(closer)
    return text
