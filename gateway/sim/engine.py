"""The simulated engine: what it answers to a request, in the JSON of the vLLM release it stands for."""

import struct
import time
import uuid
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import cast

import orjson

Json = dict[str, object]
Token = tuple[int, Json | None]  # an id and its logprob entry, if it has one

PLAIN_ANSWER = (9707, 11, 1879)
"""What an engine without a script says before its eos: "Hello, world" in Qwen3's vocabulary."""

_SINCE: dict[str, tuple[int, int]] = {
    "routed_experts": (0, 22),
    **dict.fromkeys(("model", "created", "usage"), (0, 25)),
    "ec_transfer_params": (0, 26),
    "sampling_mask": (0, 28),
    **dict.fromkeys(("prompt_token_ids", "mm_placeholders"), (0, 30)),
    **dict.fromkeys(("prompt_token_id_logprobs", "metrics"), (0, 31)),
    **dict.fromkeys(("stop_reason", "weight_versions", "output_mode"), (0, 32)),
}
"""The release that first sent a key; keys not named here have always been sent."""


class Refused(Exception):
    """The engine answers with an error; `in_stream` when it finds out only after a stream has begun."""

    def __init__(self, status: int, body: Json, *, in_stream: bool = False) -> None:
        super().__init__(body)
        self.status, self.body, self.in_stream = status, body, in_stream


@dataclass(frozen=True, slots=True)
class Answer:
    """All that the engine says to one request."""

    request_id: str
    prompt_len: int
    tokens: tuple[Token, ...]
    finish: str | None
    stop_reason: int | None
    with_logprobs: bool
    interval: int

    def bursts(self) -> list[tuple[Token, ...]]:
        """The tokens as a stream groups them: the first alone, then `interval` at a time, as vLLM does."""
        bounds = [0, *range(1, len(self.tokens), self.interval), len(self.tokens)]
        # An engine that ends before its first token still sends one event, to say why.
        return [self.tokens[a:b] for a, b in pairwise(bounds)] if self.tokens or self.finish else []


@dataclass(frozen=True, slots=True)
class Engine:
    """One model served by one vLLM release. Keys and shapes follow captures of 0.20.2 and 0.32.0."""

    model: str
    max_model_len: int
    version: str
    eos_id: int
    token_delay_s: float

    def since(self, *release: int) -> bool:
        """Whether this engine is of `release`, major and minor, or later."""
        return tuple(int(part) for part in self.version.split(".")[:2]) >= release

    def answer(self, body: Json, header_id: str | None) -> Answer:
        """Check a request in vLLM's order, then decide what to say; raises `Refused` when it does not pass."""
        self._check(body)
        params, prompt_len = section(body, "sampling_params"), len(_ids(body["token_ids"]))
        out, finish, stop_reason = self._sample(params, self.max_model_len - prompt_len)
        scored = params.get("logprobs") is not None
        return Answer(
            request_id=f"generate-tokens-{header_id or body.get('request_id') or uuid.uuid4().hex}",
            prompt_len=prompt_len,
            tokens=tuple((token_id, self._entry(at, token_id) if scored else None) for at, token_id in enumerate(out)),
            finish=finish,
            stop_reason=stop_reason,
            with_logprobs=scored,
            interval=cast("int", params.get("stream_interval") or 1) if self.since(0, 27) else 1,
        )

    def chunk(self, answer: Answer, tokens: tuple[Token, ...] | None, *, last: bool = False) -> Json:
        """One event of a stream; without `tokens`, the usage event that follows the last one."""
        choices = [] if tokens is None else [self._choice(answer, tokens, last=last)]
        body = self._known({"request_id": answer.request_id, "output_mode": "tokens", "choices": choices})
        # Unlike a whole response, a chunk has had this key in every release.
        return body | {"usage": self._usage(answer) if tokens is None else None}

    def whole(self, answer: Answer) -> Json:
        """A non-stream response. Before 0.25 its `request_id` is random, a bug of those releases."""
        details: Json = {"cached_tokens": 0, "created_cache_tokens": None, "multimodal_tokens": None}
        unused = "prompt_logprobs prompt_token_id_logprobs prompt_token_ids mm_placeholders metrics"
        body = dict.fromkeys(f"{unused} kv_transfer_params ec_transfer_params".split()) | {
            "request_id": answer.request_id if self.since(0, 25) else uuid.uuid4().hex[:16],
            "model": self.model,
            "created": int(time.time()),
            "usage": self._usage(answer) | {"prompt_tokens_details": details, "completion_tokens_details": None},
            "output_mode": "tokens",
            "choices": [self._choice(answer, answer.tokens, last=True)],
        }
        return self._known(body)

    def _check(self, body: Json) -> None:
        for name, kind in (("token_ids", list), ("sampling_params", dict)):
            if not isinstance(body.get(name), kind) or body[name] == []:
                # Older releases repeat the whole request in the message, and name no parameter.
                shown, param = (f"<dict of {len(body)} items>", f"body.{name}") if self.since(0, 32) else (body, None)
                text = f"1 validation error:\n  {{'loc': 'body.{name}', 'msg': 'Field required', 'input': {shown}}}"
                raise Refused(400, error(400, "Bad Request", text, param))
        if (model := body.get("model")) not in (None, self.model):
            text = f"The model `{model}` does not exist." + f" Valid aliases: {self.model}." * self.since(0, 32)
            raise Refused(404, error(404, "NotFoundError", text, "model"))
        if (length := len(_ids(body["token_ids"]))) >= self.max_model_len:
            text = f"The decoder prompt (length {length}) is longer than the maximum model length of "
            raise Refused(400, error(400, "BadRequestError", f"{text}{self.max_model_len}."), in_stream=True)

    def _sample(self, params: Json, room: int) -> tuple[list[int], str, int | None]:
        # A script is emitted whole, whatever stop ids it holds, so that a test can script an engine that sampled
        # past an early close. Only the budget cuts it.
        script = section(params, "extra_args").get("script")
        scripted = _ids(orjson.loads(script) if isinstance(script, str) else script)
        # Before 0.22 the default of SamplingParams itself, 16, reached the engine.
        budget = min(room, cast("int", params.get("max_tokens") or (room if self.since(0, 22) else 16)))
        eos = set() if params.get("ignore_eos") else {self.eos_id}
        named = set(_ids(params.get("stop_token_ids"))) - eos
        out: list[int] = []
        for token_id in cycle((*PLAIN_ANSWER, self.eos_id)) if script is None else scripted:
            if len(out) == budget:
                return out, "length", None
            out.append(token_id)
            if script is None and token_id in named | eos:
                break
        return out, "stop", out[-1] if out and out[-1] in named else None

    def _choice(self, answer: Answer, tokens: tuple[Token, ...], *, last: bool) -> Json:
        choice: Json = {
            "index": 0,
            "finish_reason": answer.finish if last else None,
            "stop_reason": answer.stop_reason if last else None,
            "token_ids": [token_id for token_id, _ in tokens],
            "logprobs": {"content": [entry for _, entry in tokens if entry is not None]},
            "weight_versions": [{"version": "default", "start": 0, "end": len(answer.tokens)}],
        }
        silent = () if answer.with_logprobs and tokens else ("logprobs",)
        early = () if last and answer.finish else ("weight_versions",)
        return self._known(choice | dict.fromkeys(("routed_experts", "sampling_mask", *silent, *early)))

    def _usage(self, answer: Answer) -> Json:
        prompt, completion = answer.prompt_len, len(answer.tokens)
        counts: Json = {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}
        return counts | ({"prompt_tokens_details": {"cached_tokens": 0}} if self.since(0, 32) else {})

    def _entry(self, position: int, token_id: int) -> Json:
        value = logprob(position, token_id)
        new: Json = {"token_id": token_id, "logprob": value, "rank": 1}
        sampled = new if self.since(0, 32) else {"token": f"token_id:{token_id}", "logprob": value, "bytes": None}
        return {**sampled, "top_logprobs": [sampled]}

    def _known(self, body: Json) -> Json:
        return {key: value for key, value in body.items() if self.since(*_SINCE.get(key, (0, 0)))}


def logprob(position: int, token_id: int) -> float:
    """The logprob reported for `token_id` at `position` of the output: negative, a float32, the same in every run."""
    rounded: float = struct.unpack("f", struct.pack("f", -(1 + (31 * position + token_id) % 997) / 97))[0]
    return rounded


def error(code: int, kind: str, message: str, param: str | None = None) -> Json:
    """An error body as vLLM writes it."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def section(body: Json, name: str) -> Json:
    """The object under `name`; empty when there is none."""
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def _ids(value: object) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list) else ()
