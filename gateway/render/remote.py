"""The backend over vLLM's render routes: the engine's own template and tokenizer write every prompt.

``truncate_prompt_tokens`` and ``truncation_side`` are taken among the template arguments, and reach the engine as the
fields of a request that they are there.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import orjson

from gateway.core.types import JsonObject
from gateway.errors import BadRequest, ClientError, GatewayError, RendererError
from gateway.render.bridge import CertifiedBridge, Proof
from gateway.render.certification import AUDIT_INTERVAL, Certifications
from gateway.render.derender import DERENDER, derendered
from gateway.render.discovery import AnswerFormat, AnswerReader
from gateway.render.parsed import FoundMessage
from gateway.render.parts import no_text, with_text_arguments
from gateway.render.protocol import MessageDict, MessageDicts, ParsedResponse
from gateway.render.recollection import Recollection
from gateway.render.render_server import CALLS_AT_ONCE, Json, RenderServer, shown
from gateway.render.stop_ids import discovered_stop_ids, length_to_stop
from gateway.render.token_text import written_text
from gateway.render.trial import ASKED

log = logging.getLogger(__name__)

RENDER = "/v1/chat/completions/render"

_MOST_TOKENS = "truncate_prompt_tokens"
_IDS = 2**31
"""Beyond what any vocabulary has."""
_TRUNCATION = (_MOST_TOKENS, "truncation_side")


@dataclass(slots=True)
class Renders:
    """What a server renders: whole, or cut as `truncation` says.

    Mutable state: whether it has shown tools, which is found out with the first ones.
    """

    server: RenderServer
    template_kwargs: JsonObject
    tool_choice: str
    truncation: Mapping[str, object] = field(default_factory=dict)
    _shows_tools: bool = False

    def ids(self, messages: MessageDicts, *, tools: MessageDicts | None = None, opened: bool) -> list[int]:
        """The ids of a history, and of the opening of an answer if that is to be `opened`.

        Raises:
            BadRequest: the template refuses the messages, or the tools would not be seen.
            RendererError: the server answers without ids.
            GatewayError: see `RenderServer.ask`.
        """
        if tools and not self._shows_tools:
            # A server can be told to leave tools out, and some templates do.
            whole = replace(self, truncation={})
            self._shows_tools = whole._ask([ASKED], tools, opened=True) != whole._ask([ASKED], None, opened=True)
            if not self._shows_tools:
                raise BadRequest(
                    "the engine shows its model no tools: its chat template knows none, or it was started with "
                    "--exclude-tools-when-tool-choice-none",
                    param="tools",
                )
        return self._ask(messages, tools, opened=opened)

    def _ask(self, messages: MessageDicts, tools: MessageDicts | None, *, opened: bool) -> list[int]:
        body: Json = {
            "messages": [_sent(message) for message in messages],
            "add_generation_prompt": opened,
            "chat_template_kwargs": dict(self.template_kwargs),
            **self.truncation,
        }
        if tools:
            body |= {"tools": tools, "tool_choice": self.tool_choice}
        answer = self.server.ask(RENDER, body)
        if answer.get("features") is not None:
            raise no_text()
        ids = answer.get("token_ids")
        if ids == [] and self.truncation:
            raise BadRequest(f"{_MOST_TOKENS}: nothing is left of the prompt", param="chat_template_kwargs")
        if (
            not isinstance(ids, list)
            or not ids
            or not all(type(token_id) is int and 0 <= token_id < _IDS for token_id in ids)
        ):
            said = shown(orjson.dumps(answer))
            raise RendererError(f"{self.server.url}{RENDER} answered without token_ids: {said}")
        return ids


@dataclass(frozen=True, slots=True)
class WholeHistories:
    """What bridges are proven by: renders that nothing is cut from."""

    renders: Renders
    tokenizer: Any

    def render_ids(
        self, messages: MessageDicts, *, tools: MessageDicts | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """As in `gateway.render.protocol.Renderer`; what the caller never said is not the caller's fault."""
        try:
            return self.renders.ids(messages, tools=tools, opened=add_generation_prompt)
        except ClientError as error:
            raise RendererError(error.message) from error

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids, control tokens and white space included."""
        return written_text(self.tokenizer, token_ids)


class RemoteRenderer:
    """Fulfils `gateway.render.protocol.Renderer` with what the vLLM server at `url` renders for its model.

    Where it is not known how the model writes calls, the server is asked to parse answers, too, if it does that.
    `retention` is that of `CertifiedBridge`.

    Raises, in every method and when it is made:
        GatewayError: see `Renders.ids`.
    """

    calls_at_once = CALLS_AT_ONCE
    """How many of its methods may run at once: they wait for the network."""

    def __init__(
        self,
        url: str,
        tokenizer: Any,  # one of transformers, whose own types are wider than what is called here
        template_kwargs: JsonObject,
        *,
        answers: AnswerFormat,
        retention: str | None = None,
        audit_interval: int = AUDIT_INTERVAL,
        recollection: Recollection | None = None,
        api_key: str = "",
    ) -> None:
        self._tokenizer = tokenizer
        self._server = RenderServer(url, api_key=api_key)
        self._template_kwargs = {name: value for name, value in template_kwargs.items() if name not in _TRUNCATION}
        truncation = {name: template_kwargs[name] for name in _TRUNCATION if name in template_kwargs}
        self._most_tokens = truncation.get(_MOST_TOKENS)
        parses = not answers.takes_tools and self._server.has(DERENDER)
        # With "auto", a server that could not parse calls refuses tools; where we do, that is no reason to.
        whole = Renders(self._server, self._template_kwargs, "auto" if parses else "none")
        self._renders = Renders(self._server, self._template_kwargs, whole.tool_choice, truncation)
        self._stop_ids = discovered_stop_ids(tokenizer, partial(_tried, whole))
        self.answers = None if parses else answers
        """How answers are read here; ``None`` where the server parses them."""
        self._reader = None if parses else AnswerReader(answers, self._stop_ids)
        self.markers = self._reader.markers if self._reader else None
        """What streams are read by; ``None`` where answers can only be read as a whole."""
        self.effective_thinking_retention = retention or "template"
        """Which reasoning of earlier turns its bridges keep."""
        self.certifications: Certifications[Proof] = Certifications(audit_interval)
        """Which shapes of turns are bridged."""
        self._bridge = CertifiedBridge(
            WholeHistories(whole, tokenizer),
            self._stop_ids,
            self.certifications,
            retention=retention,
            parse=self._parsed,
            style=answers.call_style,
            recollection=recollection,
        )

    def render_ids(
        self, messages: MessageDicts, *, tools: MessageDicts | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """The ids of a history; with `add_generation_prompt`, up to where the model's answer begins."""
        ids = self._renders.ids(messages, tools=tools, opened=add_generation_prompt)
        if add_generation_prompt:
            self._bridge.remember(ids, messages, tools)
        return ids

    def get_stop_token_ids(self) -> list[int]:
        """What the template writes behind an answer, and the tokenizer's end of text."""
        return [*self._stop_ids]

    def parse_response(
        self, token_ids: Sequence[int], *, tools: MessageDicts | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """The message that a completion says, up to its first stop id; a text where the server cannot parse it."""
        try:
            return self._parsed(token_ids, tools, prompt_ids)
        except GatewayError as error:  # what was sampled is not lost to that, nor is it the agent's fault
            log.warning("the server that renders parsed no answer: %s", type(error).__name__)
            return FoundMessage(self._tokenizer.decode(self._said(token_ids)), flags=("unparsed",))

    def _parsed(
        self, token_ids: Sequence[int], tools: MessageDicts | None, prompt_ids: Sequence[int] | None
    ) -> ParsedResponse:
        if self._reader is not None:
            return self._reader.read(token_ids, tools, prompt_ids)
        return derendered(
            self._server,
            self._tokenizer,
            self._said(token_ids),
            prompt_ids=prompt_ids or (),
            tools=tools,
            template_kwargs=self._template_kwargs,
        )

    def _said(self, token_ids: Sequence[int]) -> Sequence[int]:
        """An answer without what ends it."""
        return token_ids[: length_to_stop(token_ids, self._stop_ids)]

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: MessageDicts,
        *,
        tools: MessageDicts | None = None,
        history: MessageDicts | None = None,
    ) -> list[int] | None:
        """The previous ids and what the engine's template writes for the new messages, where that is certified.

        ``None`` where prompts are truncated and this one may have been, or would have to be.
        """
        if self._is_cut(len(previous_prompt_ids) + 1):  # a prompt of just that many may have been longer
            return None
        ids = self._bridge.bridge(previous_prompt_ids, previous_completion_ids, new_messages, tools, history)
        return None if ids is None or self._is_cut(len(ids)) else ids

    @property
    def truncates(self) -> bool:
        """Whether what is too long is cut, and not refused."""
        return self._most_tokens is not None

    def _is_cut(self, tokens: int) -> bool:
        """Whether so many tokens are, or may be, more than a prompt may have."""
        most = self._most_tokens
        return most is not None and not (isinstance(most, int) and tokens <= most)


def _tried(renders: Renders, messages: MessageDicts) -> list[int] | None:
    """The ids of a small history; ``None`` where the template refuses it."""
    try:
        return renders.ids(messages, opened=False)
    except ClientError:
        return None


def _sent(message: MessageDict) -> MessageDict:
    """A message as the server takes it: arguments are text there, and reasoning has a newer name."""
    sent = dict(message)
    if "reasoning_content" in sent:
        sent.setdefault("reasoning", sent["reasoning_content"])
    if sent.get("tool_calls"):
        calls = cast("list[dict[str, MessageDict]]", sent["tool_calls"])
        sent["tool_calls"] = [{**call, "function": with_text_arguments(call["function"])} for call in calls]
    return sent
