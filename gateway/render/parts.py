"""Messages as text: a content that comes in parts is joined, and one that has other parts than text is told apart."""

import json

from gateway.errors import MultimodalUnsupported
from gateway.render.protocol import MessageDict, MessageDicts


def joined(messages: MessageDicts) -> MessageDicts | None:
    """The messages with each content as one text; ``None`` where one holds an image or anything else but text."""
    texts = [_joined(message) for message in messages]
    whole = [message for message in texts if message is not None]
    return whole if len(whole) == len(messages) else None


def joined_or_refused(messages: MessageDicts) -> MessageDicts:
    """The messages with each content as one text.

    Raises:
        MultimodalUnsupported: one holds something else.
    """
    whole = joined(messages)
    if whole is None:
        raise no_text()
    return whole


def no_text() -> MultimodalUnsupported:
    """The refusal of a content that is no text."""
    return MultimodalUnsupported("this model's renderer takes text parts only", param="messages")


def with_text_arguments(function: MessageDict) -> MessageDict:
    """What a message calls, the arguments as JSON text, be they that or an object, or nothing."""
    given = function.get("arguments") or {}
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return {**function, "arguments": text}


def _joined(message: MessageDict) -> MessageDict | None:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return message
    if not isinstance(content, list):
        return None
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    strings = [text for text in texts if isinstance(text, str)]
    return {**message, "content": "".join(strings)} if len(strings) == len(content) else None
