"""Whether a request can fit into a model's context, found out before it is rendered.

Rendering a history of a million tokens takes many seconds, and the thread that renders is shared. So a request
that is suspiciously long has its tokens counted in pieces, and no further than to the end of the context: a
refusal then costs no more than a call that fills it.
"""

import orjson

from gateway.core.types import TurnRequest
from gateway.render.lock import lock_of
from gateway.render.protocol import Tokenizer

_USUAL_CHARS = 6
"""Characters to a token that no usual text exceeds on average; below it, rendering tells at no great cost."""
_PIECE_CHARS = 16_384
_PIECE_TOKENS = 4
"""What cutting a text in two may add to its tokens, and more."""
_MESSAGE_TOKENS = 2
"""Each message has an opening and an end, whatever the template."""


def outgrows(request: TurnRequest, window: int, tokenizer: Tokenizer) -> bool:
    """Whether the prompt of `request` has more than `window` tokens, as far as its texts, calls and tools tell.

    Earlier reasoning is not counted, since many templates leave it out.
    """
    room = window - _MESSAGE_TOKENS * len(request.messages)
    if room < 0:
        return True
    texts = [message.content for message in request.messages]
    texts += [call.arguments for message in request.messages for call in message.tool_calls]
    texts += [orjson.dumps(tool).decode() for tool in request.tools]
    if sum(map(len, texts)) <= room * _USUAL_CHARS:
        return False
    text = "".join(texts)
    for start in range(0, len(text), _PIECE_CHARS):
        with lock_of(tokenizer):
            ids = tokenizer.encode(text[start : start + _PIECE_CHARS], add_special_tokens=False)
        room -= len(ids) - _PIECE_TOKENS
        if room < 0:
            return True
    return False
