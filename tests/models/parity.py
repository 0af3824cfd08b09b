"""What a renderer writes beside what ``apply_chat_template`` does."""

from copy import deepcopy
from typing import Any

from gateway.render.protocol import Renderer
from tests.models.histories import CASES


def differing(renderer: Renderer, tokenizer: Any) -> set[str]:
    """The histories of which the two make other ids, with the opening of the next answer or without; or which one of
    them refuses, and not the other.
    """
    return {name for name in CASES if any(_differs(renderer, tokenizer, name, opened) for opened in (False, True))}


def _differs(renderer: Renderer, tokenizer: Any, name: str, opened: bool) -> bool:
    messages, tools = deepcopy(CASES[name])
    try:
        own: list[int] | None = list(renderer.render_ids(messages, tools=tools, add_generation_prompt=opened))
    except Exception:  # noqa: BLE001  # templates raise what they like
        own = None
    return own != _by_template(tokenizer, name, opened)


def _by_template(tokenizer: Any, name: str, opened: bool) -> list[int] | None:
    messages, tools = deepcopy(CASES[name])
    try:
        ids = tokenizer.apply_chat_template(
            messages, tools=tools, add_generation_prompt=opened, tokenize=True, return_dict=False
        )
    except Exception:  # noqa: BLE001  # likewise
        return None
    return list(ids)
