"""What vLLM refuses, in the order in which it looks."""

from dataclasses import dataclass
from typing import cast

from gateway.sim.personality import Json, Personality, Refused, error, ids, section

_INTEGERS = (
    "max_tokens",
    "min_tokens",
    "logprobs",
    "prompt_logprobs",
    "n",
    "seed",
    "stream_interval",
    "top_k",
    "routed_experts_prompt_start",
)
_MAX_LOGPROBS = 20
_KINDS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request is measured by; without a tokenizer any id is in the vocabulary (`vocabulary_size` ``None``)."""

    model: str
    max_model_len: int
    vocabulary_size: int | None
    masks: bool = False
    """Whether it was started with --return-sampling-mask."""


def check(body: Json, limits: Limits, personality: Personality) -> None:
    """Raises `Refused` for the first thing in a request to generate that vLLM would refuse."""
    _fields(body, personality)
    _values(section(body, "sampling_params"), personality)
    if personality.since(0, 32) and body.get("output_mode") == "text":
        _text_mode(body, limits, personality)
    check_model(body, limits.model, personality)
    _engine(ids(body["token_ids"]), section(body, "sampling_params"), limits, personality)


def check_model(body: Json, served: str, personality: Personality) -> None:
    """Raises `Refused` when a request names another model than the one that is served."""
    if (model := body.get("model")) not in (None, served):
        text = f"The model `{model}` does not exist." + f" Valid aliases: {served}." * personality.since(0, 32)
        raise Refused(404, error(404, "NotFoundError", text, "model"))


def _fields(body: Json, personality: Personality) -> None:
    for name, kind in (("token_ids", list), ("sampling_params", dict)):
        if not isinstance(body.get(name), kind):
            raise personality.invalid(name, "Field required", body)
    token_ids = cast("list[object]", body["token_ids"])
    if not token_ids and personality.since(0, 22):
        raise personality.invalid("token_ids", "List should have at least 1 item after validation, not 0", token_ids)
    if not all(isinstance(token_id, int) and not isinstance(token_id, bool) for token_id in token_ids):
        raise personality.invalid("token_ids", "Input should be a valid integer", token_ids)
    if any(token_id < 0 for token_id in ids(token_ids)):
        raise personality.invalid("token_ids", "Value error, token_ids must not contain negative values", token_ids)
    params = section(body, "sampling_params")
    for name in _INTEGERS:
        if not isinstance(params.get(name), int | None):
            raise personality.invalid("sampling_params", f"Input should be a valid integer: {name}", params)


def _values(params: Json, personality: Personality) -> None:
    temperature, max_tokens = params.get("temperature"), params.get("max_tokens")
    if isinstance(temperature, int | float) and temperature < 0:
        raise _value(f"temperature must be non-negative, got {float(temperature)}.", "temperature", personality)
    if max_tokens is not None and cast("int", max_tokens) < 1:
        raise _value(f"max_tokens must be at least 1, got {max_tokens}.", "max_tokens", personality)
    if params.get("stop") and params.get("detokenize") is False:
        text = "stop strings are only supported when detokenize is True. Set detokenize=True to use stop."
        raise _value(text, None, personality)
    if sum(section(params, "structured_outputs").get(kind) is not None for kind in _KINDS) > 1:
        text = "You can only use one kind of structured outputs constraint but multiple are specified."
        raise _value(text, None, personality)


def _value(text: str, param: str | None, personality: Personality) -> Refused:
    kind = "BadRequestError" if personality.since(0, 32) else "Bad Request"
    return Refused(400, error(400, kind, text, param))


def _text_mode(body: Json, limits: Limits, personality: Personality) -> None:
    if section(body, "sampling_params").get("detokenize") is False:
        raise personality.invalid("", "Value error, output_mode='text' requires sampling_params.detokenize", body)
    if limits.vocabulary_size is None:
        text = "output_mode='text' needs a tokenizer, and this simulated engine was started without one."
        raise Refused(400, error(400, "BadRequestError", text, "output_mode"))


def _engine(prompt: tuple[int, ...], params: Json, limits: Limits, personality: Personality) -> None:
    """What only the engine itself finds out, when a stream has begun."""
    if not prompt:
        raise _late("You must pass at least one prompt")
    if len(prompt) >= limits.max_model_len:
        over = " plus the number of requested output tokens (at least 1)" * (len(prompt) == limits.max_model_len)
        raise _late(
            f"The decoder prompt (length {len(prompt)}){over} is longer than the maximum model length of "
            f"{limits.max_model_len}. Make sure that `max_model_len` is no smaller than the number of text tokens"
            f"{' (prompt + requested output tokens)' * bool(over)}."
        )
    if limits.vocabulary_size is not None and max(prompt) >= limits.vocabulary_size:
        raise _late(f"Token id {max(prompt)} is out of vocabulary")
    if (asked := cast("int", params.get("logprobs") or 0)) > _MAX_LOGPROBS:
        text = f"Requested sample logprobs of {asked}, which is greater than max allowed: {_MAX_LOGPROBS}"
        raise _late(text, "logprobs")
    if not 0 <= cast("int", params.get("routed_experts_prompt_start") or 0) <= len(prompt):
        text = f"routed_experts_prompt_start must be between 0 and {len(prompt)}"
        raise _late(text, "routed_experts_prompt_start")
    if limits.masks:
        _masked(params)
    if params.get("trace_decode_token_ids") is not None and personality.since(0, 29):
        raise _late("trace_decode_token_ids is set but trace replay is not enabled.")


def _masked(params: Json) -> None:
    """What --return-sampling-mask asks of every request."""
    temperature, top_k = params.get("temperature"), params.get("top_k")
    if isinstance(temperature, int | float) and temperature <= 0:
        raise _late("sampling distribution replay requires temperature > 0")
    if not isinstance(top_k, int) or top_k <= 0:
        raise _late("sampling distribution replay requires top_k > 0 to bound sampling mask size")


def _late(text: str, param: str | None = None) -> Refused:
    return Refused(400, error(400, "BadRequestError", text, param), in_stream=True)
