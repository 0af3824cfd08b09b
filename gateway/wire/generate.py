"""The southbound codec: vLLM's ``POST /inference/v1/generate``, 0.20 to 0.32.

What is asked; `gateway.wire.collector` reads the answer.
"""

from collections.abc import Sequence
from dataclasses import asdict

import orjson

from gateway import errors
from gateway.core.types import JsonObject, TurnRequest
from gateway.wire.collector import alternatives_to_ask
from gateway.wire.engine_facts import dotted

CONSTRAINING_VERSION = (0, 32)
"""The release that first had `reasoning_ended`; those before may ignore a grammar, and do not say so."""
RANK_HEADER = "X-data-parallel-rank"
"""How vLLM is told a rank, and we, too."""
STREAM_INTERVAL_TOKENS = 8
"""Ids per event, where the engine can (0.27 and later): reading one costs as much as twenty ids (bench/streaming)."""
_INTERVALS_SINCE = (0, 27)

_CANNOT_CONSTRAIN = (
    "response_format, structured_outputs and a forced tool_choice need vLLM 0.32 or later, which applies them for "
    "certain; the version of this engine is {}: leave them out, or have the engine updated"
)


def sends_each_id_alone(interval_tokens: int, version: tuple[int, int] | None) -> bool:
    """Whether an engine of this `version`, asked for so many ids an event, holds none back until there are more."""
    return interval_tokens == 1 or (version is not None and version < _INTERVALS_SINCE)


def encode_request(
    ids: Sequence[int],
    request: TurnRequest,
    *,
    max_tokens: int,
    stop_ids: Sequence[int],
    structured_outputs: JsonObject | None = None,
    version: tuple[int, int] | None = None,
    stream_interval_tokens: int = STREAM_INTERVAL_TOKENS,
    routed_experts_prompt_start: int = 0,
    include_usage: bool = False,
) -> bytes:
    """The body of one call for one completion of the prompt `ids`, for an engine of this `version`.

    The renderer's stop ids are left out under `ignore_eos`, which they would defeat. Special tokens stay in
    the engine's text, since that is the text in which it looks for stop strings.

    Raises:
        BadRequest: there are `structured_outputs`, and the engine might answer as if there were none.
    """
    # Behind a reasoning parser a grammar waits for the end of a thought, which a prompt need not have, unless told.
    constrained = {} if structured_outputs is None else {"reasoning_ended": True}
    if constrained and (version is None or version < CONSTRAINING_VERSION):
        raise errors.BadRequest(_CANNOT_CONSTRAIN.format("unknown" if version is None else dotted(version)))
    sampling = _sampling_of(request, max_tokens, stop_ids) | {"stream_interval": stream_interval_tokens}
    if constrained:
        sampling["structured_outputs"] = structured_outputs
    if routed_experts_prompt_start:
        sampling["routed_experts_prompt_start"] = routed_experts_prompt_start
    optional: dict[str, object] = {
        "model": request.model,
        "priority": request.priority,
        "cache_salt": request.cache_salt,
    }
    if include_usage:
        optional["stream_options"] = {"include_usage": True}
    given = {name: value for name, value in optional.items() if value is not None}
    return orjson.dumps({"token_ids": ids, "sampling_params": sampling, "stream": True, **constrained, **given})


def _sampling_of(request: TurnRequest, max_tokens: int, stop_ids: Sequence[int]) -> dict[str, object]:
    sampling: dict[str, object] = {
        name: value for name, value in asdict(request.sampling).items() if not _is_default(value)
    }
    sampling |= {"max_tokens": max_tokens, "logprobs": alternatives_to_ask(request.top_logprobs)}
    if request.sampling.min_tokens:
        sampling["min_tokens"] = min(request.sampling.min_tokens, max_tokens)  # or the engine refuses both
    if stop_ids and not request.sampling.ignore_eos:
        sampling["stop_token_ids"] = list(stop_ids)
    return sampling | {"skip_special_tokens": False}


def _is_default(value: object) -> bool:
    return value is None or value is False or value == ()
