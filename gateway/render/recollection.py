"""What prompts and answers say, for callers that know the four methods of a renderer and no more."""

import json
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from copy import deepcopy
from hashlib import blake2b
from threading import Lock

from gateway.render.call_style import CallStyle
from gateway.render.protocol import MessageDict, MessageDicts, ParsedCall, ParsedResponse
from gateway.render.strict_json import strict_object

_MOST_PROMPTS = 64


class Recollection:
    """The messages of the prompts that were rendered last, by their ids and tools; safe to use from several threads.

    The gateway has none: it tells each bridge the history, and what a deleted session said must be gone.
    """

    def __init__(self, most_prompts: int = _MOST_PROMPTS) -> None:
        self._most_prompts = most_prompts
        self._known: OrderedDict[bytes, MessageDicts] = OrderedDict()
        self._lock = Lock()

    def put(self, prompt_ids: Sequence[int], messages: MessageDicts, tools: MessageDicts | None) -> None:
        """Keep what a prompt says now, in place of the one that was longest not asked for."""
        key, known = _digest(prompt_ids, tools), deepcopy(messages)
        with self._lock:
            self._known[key] = known
            self._known.move_to_end(key)
            if len(self._known) > self._most_prompts:
                self._known.popitem(last=False)

    def get(self, prompt_ids: Sequence[int], tools: MessageDicts | None) -> MessageDicts | None:
        """What a prompt says; ``None`` if that is not known, or it was rendered with other tools."""
        key = _digest(prompt_ids, tools)
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)


def answer_of(parsed: ParsedResponse, new: MessageDicts, style: CallStyle) -> MessageDict:
    """An answer as a message in front of `new`, whose results tell the ids of its calls.

    Raises:
        ValueError: the arguments of a call are no JSON object.
    """
    ids = [str(message.get("tool_call_id")) for message in new if message["role"] == "tool"]
    calls = [_call(call, ids[nth] if nth < len(ids) else "", style) for nth, call in enumerate(parsed.tool_calls)]
    content = style.content(parsed.content or "", has_calls=bool(calls))
    thought = {"reasoning_content": parsed.reasoning_content} if parsed.reasoning_content else {}
    return {"role": "assistant", "content": content, **thought, **({"tool_calls": calls} if calls else {})}


def _call(call: ParsedCall, answered: str, style: CallStyle) -> MessageDict:
    arguments = strict_object(call.arguments)
    if arguments is None:
        raise ValueError("the arguments of a call are no JSON object")
    function = {"name": call.name, "arguments": style.arguments(arguments)}
    return {"id": answered or getattr(call, "id", None) or "", "type": "function", "function": function}


def _digest(token_ids: Sequence[int], tools: MessageDicts | None) -> bytes:
    digest = blake2b(array("I", token_ids).tobytes(), digest_size=16)
    digest.update(json.dumps(tools or None, default=str).encode("utf-8", "surrogatepass"))
    return digest.digest()
