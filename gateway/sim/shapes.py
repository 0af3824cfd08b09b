"""Answers in the JSON of the vLLM release that the sim stands for."""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.sim.engine import Engine, Request, Token
from gateway.sim.logprobs import logprob
from gateway.sim.output import Output
from gateway.sim.personality import Json
from gateway.sim.side_arrays import routed_experts, sampling_mask

_UNUSED = (
    "prompt_logprobs prompt_token_id_logprobs prompt_token_ids mm_placeholders metrics kv_transfer_params "
    "ec_transfer_params"
)


@dataclass(frozen=True, slots=True)
class Shapes:
    """How one request is answered: whole, or as events. `cached` is how much of the prompt was in the prefix cache."""

    engine: Engine
    request: Request
    cached: int = 0

    def whole(self, outputs: Sequence[Output]) -> Json:
        """A non-stream response. Before 0.25 its `request_id` is random, a bug of those releases."""
        personality = self.engine.personality
        details: Json = {"cached_tokens": self.cached, "created_cache_tokens": None, "multimodal_tokens": None}
        body = dict.fromkeys(_UNUSED.split()) | {
            "request_id": self.request.request_id if personality.since(0, 25) else uuid.uuid4().hex[:16],
            "model": self.engine.model,
            "created": int(time.time()),
            "usage": self._counts(outputs) | {"prompt_tokens_details": details, "completion_tokens_details": None},
            "prompt_logprobs": self._prompt_logprobs(),
            "prompt_token_ids": self.request.prompt if self.request.body.get("return_token_ids") is True else None,
            "output_mode": self._mode,
            "choices": [self._choice(output, output.said, last=True) for output in outputs],
        }
        return personality.known(body)

    def chunk(self, outputs: Sequence[Output], output: Output, tokens: tuple[Token, ...], *, last: bool) -> Json:
        """One event of a stream."""
        usage: Json | None = None
        if self.request.option("continuous_usage_stats"):
            details = ["prompt_tokens_details", *(["completion_tokens_details"] * self.engine.personality.since(0, 25))]
            usage = self._counts(outputs) | dict.fromkeys(details)
        body = self._event([self._choice(output, tokens, last=last)], usage)
        first = output.sent == len(tokens)
        if first and self.request.body.get("return_token_ids") is True:
            body |= self.engine.personality.known({"prompt_token_ids": self.request.prompt})
        return body

    def usage(self, outputs: Sequence[Output]) -> Json:
        """The event after the last token, for who asked for it."""
        new: Json = {"prompt_tokens_details": {"cached_tokens": self.cached}}
        return self._event([], self._counts(outputs) | (new if self.engine.personality.since(0, 32) else {}))

    @property
    def _mode(self) -> str:
        return "text" if self.request.text_mode else "tokens"

    def _event(self, choices: list[Json], usage: Json | None) -> Json:
        body: Json = {"request_id": self.request.request_id, "output_mode": self._mode, "choices": choices}
        # Unlike a whole response, a chunk has had this key in every release.
        return self.engine.personality.known(body) | {"usage": usage}

    def _choice(self, output: Output, tokens: tuple[Token, ...], *, last: bool) -> Json:
        scored = output.answer.with_logprobs and tokens
        ended = last and output.finish is not None
        choice: Json = {
            "index": output.index,
            "finish_reason": output.finish if last else None,
            "stop_reason": output.stop_reason if last else None,
            "token_ids": [token_id for token_id, _ in tokens],
            "logprobs": {"content": [entry for _, entry in tokens if entry is not None]} if scored else None,
            "weight_versions": output.spans if ended else None,
            "routed_experts": self._routed_experts(output) if ended else None,
            "sampling_mask": self._sampling_mask(tokens),
        }
        known = self.engine.personality.known(choice)
        return known | {"text": self._text(output, last=last)} if self.request.text_mode else known

    def _routed_experts(self, output: Output) -> str | None:
        if self.engine.routed_experts is None or (self.request.streams and not self.engine.personality.since(0, 24)):
            return None
        start = self.request.params.get("routed_experts_prompt_start")
        ids = [*self.request.prompt, *output.ids]
        return routed_experts(ids, start if isinstance(start, int) else 0, *self.engine.routed_experts)

    def _sampling_mask(self, tokens: tuple[Token, ...]) -> list[list[int]] | None:
        top_k = self.request.params.get("top_k")
        if not (self.engine.returns_sampling_mask and tokens and isinstance(top_k, int)):
            return None
        return [sampling_mask(token_id, top_k) for token_id, _ in tokens]

    def _text(self, output: Output, *, last: bool) -> str:
        assert self.engine.policy is not None
        skip = self.request.params.get("skip_special_tokens") is not False
        visible = self.engine.policy.vocabulary.decode(output.ids, skip_special=skip)
        return output.text(visible.rstrip("\ufffd"), last=last)

    def _counts(self, outputs: Sequence[Output]) -> Json:
        prompt, completion = len(self.request.prompt), sum(output.sent for output in outputs)
        return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}

    def _prompt_logprobs(self) -> list[Json | None] | None:
        if self.request.params.get("prompt_logprobs") is None:
            return None
        policy = self.engine.policy if self.request.params.get("detokenize") is not False else None
        entries: list[Json | None] = [None]
        for at, token_id in enumerate(self.request.prompt[1:], start=1):
            said = policy.vocabulary.decode([token_id]) if policy else None
            entries.append({str(token_id): {"logprob": logprob(at, token_id), "rank": 1, "decoded_token": said}})
        return entries
