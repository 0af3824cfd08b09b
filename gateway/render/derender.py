"""Answers parsed by the vLLM server that renders, with the parsers it was started with."""

from collections.abc import Sequence
from typing import cast

import orjson

from gateway.core.types import JsonObject
from gateway.errors import RendererError
from gateway.render.parsed import FoundCall, FoundMessage
from gateway.render.protocol import MessageDicts, Tokenizer
from gateway.render.render_server import Json, RenderServer, shown

DERENDER = "/v1/chat/completions/derender"

_QUESTION: MessageDicts = [{"role": "user", "content": "?"}]
"""What was asked does not matter to the parsers, but something must have been."""
_TAIL_IDS = 1024
"""Ids of a prompt from which they tell whether it ends inside a thought."""


def derendered(
    server: RenderServer,
    tokenizer: Tokenizer,
    said: Sequence[int],
    *,
    prompt_ids: Sequence[int],
    tools: MessageDicts | None,
    template_kwargs: JsonObject,
) -> FoundMessage:
    """The message that `said`, ids without the one that ended them, makes behind a prompt.

    Raises:
        GatewayError: see `RenderServer.ask`; an answer without a message is a `RendererError`, too.
    """
    if not said:
        return FoundMessage("")  # which the server would refuse
    asked: Json = {"messages": _QUESTION, "chat_template_kwargs": dict(template_kwargs)}
    body: Json = {
        "generate_response": {"choices": [{"index": 0, "token_ids": list(said), "finish_reason": "stop"}]},
        "prompt_token_ids": list(prompt_ids[-_TAIL_IDS:]),
        "chat_request": asked | ({"tools": tools} if tools else {}),
    }
    answer = server.ask(DERENDER, body)
    match answer:
        case {"choices": [{"message": {"content": str() | None as content, **message}}]}:
            reasoning = message.get("reasoning") or message.get("reasoning_content")
            calls = cast("list[dict[str, object]]", message.get("tool_calls") or [])
            text = tokenizer.decode(said)
            return FoundMessage(
                content or "", str(reasoning) if reasoning else None, tuple(_call(call, text) for call in calls)
            )
    raise RendererError(f"{server.url}{DERENDER} answered without a message: {shown(orjson.dumps(answer))}")


def _call(found: dict[str, object], text: str) -> FoundCall:
    function = found.get("function")
    called = function if isinstance(function, dict) else {}
    own_id, name = found.get("id"), called.get("name")
    return FoundCall(
        name=name if isinstance(name, str) else None,
        arguments=called.get("arguments"),
        raw=orjson.dumps(called).decode(),
        # vLLM makes ids up even where the model wrote one, and no model must see an id that it did not write.
        id=own_id if isinstance(own_id, str) and own_id in text else None,
    )
