"""The small histories that a template is tried with: what it does with an answer, a call and a result."""

from collections.abc import Callable, Sequence

from gateway.render.call_style import USUAL, CallStyle
from gateway.render.protocol import MessageDict, MessageDicts

SAID = "Xk7qVz"
"""What no template writes of itself."""
CALL_IDS = ("a1b2c3d4e", "a1b2c3d4f")
"""As Mistral's templates demand them."""
LOOK: MessageDict = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": {
            "type": "object",
            "properties": {"at": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["at"],
        },
    },
}
"""A tool."""
GIVEN = ('{"at": "Xk7qVz", "days": 3}', '{"at": "Wm9pRt", "days": 5}')
"""What it is called with."""
ASKED: MessageDict = {"role": "user", "content": "look"}
RESULT: MessageDict = {"role": "tool", "content": "nothing", "tool_call_id": CALL_IDS[0]}


def calling(style: CallStyle, ids: Sequence[str] = CALL_IDS[:1]) -> MessageDict:
    """An answer with a call for each of these ids, two at most."""
    functions = [{"name": "look", "arguments": style.arguments(given)} for given in GIVEN]
    calls = [
        {"id": one, "type": "function", "function": function} for one, function in zip(ids, functions, strict=False)
    ]
    return {"role": "assistant", "content": style.content("", has_calls=True), "tool_calls": calls}


STYLES = (USUAL, CallStyle(objects=True), CallStyle(None), CallStyle(None, objects=True))
"""The first one that serves is taken."""


def learn_style(write: Callable[[MessageDicts, MessageDicts], str | None]) -> CallStyle:
    """The style in which a call's arguments stand in the text of a small history, and not as a quoted string.

    `write` gives the text of messages and tools, and ``None`` where the template refuses them. Where no style serves,
    as with templates that know no calls, it is the default.
    """

    def serves(style: CallStyle) -> bool:
        text = write([ASKED, calling(style), RESULT], [LOOK])
        return text is not None and SAID in text and f'\\"{SAID}' not in text

    return next((style for style in STYLES if serves(style)), USUAL)
