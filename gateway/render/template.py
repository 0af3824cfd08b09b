"""The backend for any tokenizer that comes with a chat template."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from jinja2 import TemplateError

from gateway.core.types import JsonObject
from gateway.errors import BadRequest
from gateway.render.bridge import CertifiedBridge, Proof
from gateway.render.certification import AUDIT_INTERVAL, Certifications
from gateway.render.chat_template import template_text
from gateway.render.discovery import AnswerFormat, AnswerReader
from gateway.render.parsed import Parsed
from gateway.render.parts import joined, joined_or_refused
from gateway.render.protocol import MessageDicts
from gateway.render.recollection import Recollection
from gateway.render.stop_ids import discovered_stop_ids
from gateway.render.token_text import written_text

_SHOWN_CHARS = 200


class TemplateRenderer:
    """Fulfils `gateway.render.protocol.Renderer`: writes what ``apply_chat_template`` does, bridges what is certified.

    `retention` ``all`` keeps the thoughts of earlier answers, which most templates strip at the next user message; with
    ``None`` such turns are not bridged. `answers` says how answers are read.

    Raises:
        RendererError: no id ends an answer, as far as tokenizer and template tell.
    """

    def __init__(
        self,
        tokenizer: Any,  # one of transformers, whose own types are wider than what is called here
        template_kwargs: JsonObject,
        *,
        answers: AnswerFormat,
        retention: str | None = None,
        audit_interval: int = AUDIT_INTERVAL,
        recollection: Recollection | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._template_kwargs = template_kwargs
        self._stop_ids = discovered_stop_ids(tokenizer, self._tried)
        self.answers = answers
        """How answers are read."""
        self._reader = AnswerReader(answers, self._stop_ids)
        self.markers = self._reader.markers
        """What streams are read by; ``None`` where answers can only be read as a whole."""
        self.effective_thinking_retention = retention or "template"
        """Which reasoning of earlier turns its bridges keep."""
        self.certifications: Certifications[Proof] = Certifications(audit_interval)
        """Which shapes of turns are bridged."""
        self._bridge = CertifiedBridge(
            self,
            self._stop_ids,
            self.certifications,
            retention=retention,
            parse=self._reader.read,
            style=answers.call_style,
            recollection=recollection,
        )

    def render_ids(
        self, messages: MessageDicts, *, tools: MessageDicts | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """The ids of a history; with `add_generation_prompt`, up to where the model's answer begins.

        Raises:
            MultimodalUnsupported: it holds something else than text.
            BadRequest: the template refuses it.
        """
        texts = joined_or_refused(messages)
        try:
            ids = self.encode(self.text(texts, tools=tools, opened=add_generation_prompt))
        except TemplateError as error:
            reason = str(error)[:_SHOWN_CHARS]
            raise BadRequest(f"messages: the model's chat template refuses them: {reason}", param="messages") from error
        if add_generation_prompt:
            self._bridge.remember(ids, texts, tools)
        return ids

    def parse_response(
        self, token_ids: Sequence[int], *, tools: MessageDicts | None = None, prompt_ids: Sequence[int] | None = None
    ) -> Parsed:
        """The message that a completion says, up to its first stop id."""
        return self._reader.read(token_ids, tools, prompt_ids)

    def get_stop_token_ids(self) -> list[int]:
        """What the template writes behind an answer, and the tokenizer's end of text."""
        return [*self._stop_ids]

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: MessageDicts,
        *,
        tools: MessageDicts | None = None,
        history: MessageDicts | None = None,
    ) -> list[int] | None:
        """The previous ids and what the template writes for the new messages, where that is certified."""
        new, told = joined(new_messages), joined(history or [])
        if new is None or told is None:
            return None
        known = None if history is None else told
        return self._bridge.bridge(previous_prompt_ids, previous_completion_ids, new, tools, known)

    def text(
        self, messages: MessageDicts, *, tools: MessageDicts | None, opened: bool, moment: datetime | None = None
    ) -> str:
        """What the template writes; with a `moment`, as at that time."""
        given = self._template_kwargs
        return template_text(
            self._tokenizer, messages, tools=tools, opened=opened, template_kwargs=given, moment=moment
        )

    def encode(self, text: str) -> list[int]:
        """The ids of what the template wrote."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids, as it was encoded."""
        return written_text(self._tokenizer, token_ids)

    def _tried(self, messages: MessageDicts) -> list[int] | None:
        """The ids of a small history; ``None`` where the template refuses it."""
        try:
            return self.encode(self.text(messages, tools=None, opened=False))
        except Exception:  # noqa: BLE001  # a template raises what it likes: it knows no results of tools, say
            return None
