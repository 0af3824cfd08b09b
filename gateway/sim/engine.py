"""The simulated engine: what it decides to say to a request."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import cast

import orjson

from gateway.sim import rules
from gateway.sim.chat_template import ChatTemplate
from gateway.sim.grammar import cannot
from gateway.sim.logprobs import Mode, logprob, logprobs
from gateway.sim.personality import Json, Personality, ids, section
from gateway.sim.policy import Policy

Token = tuple[int, Json | None]  # an id and its logprob entry, if it has one

PLAIN_ANSWER = (9707, 11, 1879)
"""What an engine without a script or a tokenizer says before its eos: "Hello, world" in Qwen3's vocabulary."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for, once it has passed the rules."""

    request_id: str
    prompt: tuple[int, ...]
    params: Json
    body: Json
    text_mode: bool
    interval: int
    """How many tokens an event of a stream holds; the first event always holds one."""

    @property
    def streams(self) -> bool:
        """Whether the answer is a stream of events."""
        return self.body.get("stream") is True

    def option(self, name: str) -> bool:
        """Whether a stream option is on."""
        return section(self.body, "stream_options").get(name) is True


@dataclass(frozen=True, slots=True)
class Answer:
    """All that the engine says in one choice."""

    index: int
    tokens: tuple[Token, ...]
    finish: str | None
    stop_reason: int | str | None
    with_logprobs: bool
    text: str | None = None
    """What the ids say up to a stop string; ``None`` unless text was asked for."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One model served by one vLLM release. What it accepts and says follows captures of 0.20.2 and 0.32.0."""

    model: str
    max_model_len: int
    personality: Personality
    eos_id: int
    policy: Policy | None = None
    logprobs_mode: Mode = "raw_logprobs"
    routed_experts: tuple[int, int] | None = None
    """Layers, and experts that each sends a token to, where it says which."""
    returns_sampling_mask: bool = False
    template: ChatTemplate | None = None
    """What it renders messages with; without one it renders none."""

    def request(self, body: Json, header_id: str | None) -> Request:
        """Check a request in vLLM's order; raises `Refused` when it does not pass."""
        vocabulary_size = self.policy.vocabulary.size if self.policy else None
        limits = rules.Limits(self.model, self.max_model_len, vocabulary_size, masks=self.returns_sampling_mask)
        rules.check(body, limits, self.personality)
        params = section(body, "sampling_params")
        return Request(
            request_id=f"generate-tokens-{header_id or body.get('request_id') or uuid.uuid4().hex}",
            prompt=ids(body["token_ids"]),
            params=params,
            body=body,
            text_mode=body.get("output_mode") == "text" and self.personality.since(0, 32),
            interval=cast("int", params.get("stream_interval") or 1) if self.personality.since(0, 27) else 1,
        )

    def answers(self, request: Request) -> list[Answer]:
        """Decide what to say, once for each of the `n` choices."""
        return [self._answer(request, index) for index in range(cast("int", request.params.get("n") or 1))]

    def _answer(self, request: Request, index: int) -> Answer:
        out, finish, stop_reason = self._sample(request, index)
        text = None
        if self.policy and (request.text_mode or request.params.get("stop")):
            out, text, stop = self._cut(out, request.params)
            finish, stop_reason = (finish, stop_reason) if stop is None else ("stop", stop)
        asked = request.params.get("logprobs")
        top = max(1, asked) if isinstance(asked, int) else 0
        tokens = tuple(
            (token_id, self._entry(at, token_id, top, request) if top else None) for at, token_id in enumerate(out)
        )
        return Answer(index, tokens, finish, stop_reason, top > 0, text if request.text_mode else None)

    def _sample(self, request: Request, index: int) -> tuple[list[int], str, int | str | None]:
        # A script is emitted whole, whatever stop ids it holds, so that a test can script an engine that sampled
        # past an early close. Only the budget cuts it, and a stop string where there is a tokenizer to see it.
        params = request.params
        script = section(params, "extra_args").get("script")
        # Before 0.22 the default of SamplingParams itself, 16, reached the engine.
        room = self.max_model_len - len(request.prompt)
        default = room if self.personality.since(0, 22) else 16
        budget = min(room, cast("int", params.get("max_tokens") or default))
        eos = set() if params.get("ignore_eos") else {self.eos_id}
        named = set(ids(params.get("stop_token_ids"))) - eos
        if eos and self.policy and (second := self.policy.vocabulary.id_of("<|endoftext|>")) is not None:
            named.add(second)  # Qwen3's generation config ends at it too, and vLLM names it as the reason
        if script is not None:
            scripted = ids(orjson.loads(script) if isinstance(script, str) else script)
            out = list(scripted[:budget])
            ended = len(out) == len(scripted)
        else:
            out = _until(islice(cycle(self._words(request, index)), budget), named | eos)
            ended = bool(out) and out[-1] in named | eos
        if (length := _repetition(out, section(params, "repetition_detection"))) is not None:
            return out[:length], "repetition", "repetition_detected"
        return out, "stop" if ended else "length", out[-1] if ended and out and out[-1] in named else None

    def _words(self, request: Request, index: int) -> Sequence[int]:
        asked = section(request.params, "structured_outputs")
        if self.policy is None:
            if asked:
                raise cannot()
            return (*PLAIN_ANSWER, self.eos_id)
        given = request.params.get("seed")
        seed = (given if isinstance(given, int) else 0) + index
        # As behind a reasoning parser: a grammar waits for the end of a thought, be there one or not.
        ended = self.personality.since(0, 32) and request.body.get("reasoning_ended") is True
        if asked and (ended or self.policy.has_thought(request.prompt)):
            return self.policy.conform(request.prompt, seed, asked)
        return self.policy.say(request.prompt, seed)

    def _cut(self, out: list[int], params: Json) -> tuple[list[int], str, str | None]:
        """The ids up to the one that completes a stop string, their text without it, and the string."""
        assert self.policy is not None
        vocabulary, skip = self.policy.vocabulary, params.get("skip_special_tokens") is not False
        text, given = vocabulary.decode(out, skip_special=skip), params.get("stop")
        stops: list[str] = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        found = [(text.index(stop), stop) for stop in stops if stop in text]
        if not found:
            return out, text, None
        at, stop = min(found)
        end = at + len(stop)
        length = next(
            n
            for n in range(1, len(out) + 1)
            if len(vocabulary.decode(out[:n], skip_special=skip).rstrip("\ufffd")) >= end
        )
        return out[:length], text[: end if params.get("include_stop_str_in_output") else at], stop

    def _entry(self, at: int, token_id: int, top: int, request: Request) -> Json:
        # Before 0.22 every alternative was given the id that was sampled, a bug of those releases.
        others = [token_id + n if self.personality.since(0, 22) else token_id for n in range(1, top)]
        at += len(request.prompt)
        asked = request.params.get("temperature")
        warm = self.logprobs_mode == "processed_logprobs" and isinstance(asked, int | float)
        values = logprobs(at, token_id, top, float(cast("float", asked)) if warm else 1.0)
        listed = [
            self._named(named, value, rank, text=request.text_mode)
            for rank, (named, value) in enumerate(zip([token_id, *others], values, strict=True), start=1)
        ]
        if wanted := [other for other in ids(request.params.get("logprob_token_ids")) if other != token_id]:
            names = wanted if self.personality.since(0, 22) else [token_id] * len(wanted)
            scores = [logprob(at, other) for other in wanted]
            listed[1:] = [self._named(*pair, 2, text=request.text_mode) for pair in zip(names, scores, strict=True)]
        return {**listed[0], "top_logprobs": listed[:top]}

    def _named(self, token_id: int, value: float, rank: int, *, text: bool) -> Json:
        if text and self.policy:
            said = self.policy.vocabulary.decode([token_id])
            return {"token": said, "logprob": value, "bytes": list(said.encode())}
        if self.personality.since(0, 32):
            return {"token_id": token_id, "logprob": value, "rank": rank}
        return {"token": f"token_id:{token_id}", "logprob": value, "bytes": None}


def _until(tokens: Iterable[int], ends: set[int]) -> list[int]:
    taken: list[int] = []
    for token_id in tokens:
        taken.append(token_id)
        if token_id in ends:
            break
    return taken


def _repetition(out: Sequence[int], asked: Json) -> int | None:
    """The length at which the end of `out` is some pattern, often enough in a row; ``None`` when it never is."""
    least, most, count = (asked.get(f"{name}") for name in ("min_pattern_size", "max_pattern_size", "min_count"))
    if not (isinstance(most, int) and isinstance(count, int)):
        return None
    for end in range(1, len(out) + 1):
        for size in range(least if isinstance(least, int) else 1, most + 1):
            tail = out[max(0, end - size * count) : end]
            if len(tail) == size * count and all(a == b for a, b in zip(tail, tail[size:], strict=False)):
                return end
    return None
