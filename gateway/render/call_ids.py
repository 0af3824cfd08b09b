"""What a model's template does with tool-call ids, and ids in the form that it demands."""

import re
from base64 import b32encode
from collections.abc import Callable
from hashlib import blake2b
from typing import Literal

from gateway.core.types import Message, Messages, ToolCall, Tools
from gateway.errors import BadRequest, RendererError
from gateway.render.trial import LOOK

CallIds = Literal["hidden", "shown", "demanded", "refused"]
"""``hidden``: no prompt depends on them. ``shown``: they stand in the prompt as they are. ``demanded``: the template
takes nine letters and digits only, as Mistral's do. ``refused``: it takes no tool call at all, whatever its id."""

_FORM = re.compile(r"[A-Za-z0-9]{9}")


def learn_call_ids(render: Callable[[Messages, Tools], list[int]]) -> CallIds:
    """What becomes of ids like ours in a small history that ends in a tool's result.

    A user's message behind it would tell no more, and Mistral's templates refuse one there.
    """

    def rendered(call_id: str) -> list[int] | None:
        call = Message("assistant", tool_calls=(ToolCall(call_id, "look", "{}"),))
        result = Message("tool", "nothing", tool_call_id=call_id)
        try:
            return render([Message("user", "look"), call, result], (LOOK,))
        except (BadRequest, RendererError):
            return None

    one, other = (rendered(f"call_{letter * 24}") for letter in "ab")
    if one is not None and other is not None:
        return "hidden" if one == other else "shown"
    return "refused" if rendered("a" * 9) is None else "demanded"


def in_form(call_id: str) -> str:
    """An id of nine letters and digits: `call_id` itself if it is one, else always the same for the same."""
    if _FORM.fullmatch(call_id):
        return call_id
    digest = blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=6).digest()
    return b32encode(digest).decode().lower()[:9]
