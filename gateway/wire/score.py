"""Rows scored: what is asked of the gateway and of an engine, and what both answer.

An engine gives the logprobs of a prompt at temperature 1 and without truncation, whatever else the call says. They
come as one object for each position, whose keys are ids as text: that of the prompt, and others if there are
likelier ones. The first position follows nothing, and has none.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from gateway.core.types import JsonObject
from gateway.errors import BadRequest, ContextLengthExceeded, EngineProtocolError
from gateway.wire.collector import MISSING_LOGPROB
from gateway.wire.engine_error import loaded
from gateway.wire.fields import parse_object

TOKENS_IN_FLIGHT = 1 << 17
"""Of rows that are scored at once: a position costs an engine what one of a prompt does, and us a hundred bytes of its
answer."""
_OTHER_COMMAS = 64
"""How many commas a body may have beside those between ids."""
_NAMES = {"token_ids", "model"}
_ONE_TOKEN: JsonObject = {"max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0, "detokenize": False}
_UNSHAPED: JsonObject = {
    "top_p": 1.0,
    "top_k": 1 << 20,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Said in full, since an engine takes what is left open from the model's own generation config. A `top_k` above every
vocabulary truncates nothing, and engines that return sampling masks do not take none."""


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A row to be scored."""

    ids: "array[int]"
    model: str | None


@dataclass(frozen=True, slots=True)
class Scores:
    """What an engine makes of a row."""

    logprobs: list[float | None]
    """Natural-log probability of each id after those before it, nats; 0.0 at the first, which follows nothing, and
    ``None`` at the last where the engine cannot tell it."""
    versions: tuple[str, ...]
    """The policy versions that the engine names."""


def decode_score(body: bytes, window_tokens: int) -> ScoreRequest:
    """The row that a body asks to be scored; `window_tokens` is the longest context that there is.

    Raises:
        ContextLengthExceeded: the body is that of a longer row, which is seen before it is read.
        BadRequest: the body is not JSON, a value is ill, or a name is not known.
    """
    ids_at_least = body.count(b",") - _OTHER_COMMAS
    if ids_at_least > window_tokens:
        raise ContextLengthExceeded(
            f"the row has more than {ids_at_least} tokens, and the model's context holds {window_tokens}"
        )
    asked = parse_object(body)
    if unknown := set(asked.names()) - _NAMES:
        raise BadRequest(f"{min(unknown):.80} is not known here: there are token_ids and model", param=min(unknown))
    given = asked.items("token_ids", window_tokens + _OTHER_COMMAS + 1)
    if not given or not set(map(type, given)) <= {int}:
        raise asked.error("token_ids", "must be a list of token ids, and not empty")
    try:
        return ScoreRequest(array("I", given), asked.text("model", 1))  # type: ignore[arg-type]  # they are whole numbers
    except OverflowError:
        raise asked.error("token_ids", f"must be between 0 and {2**32 - 1}") from None


def encode_call(ids: Sequence[int], model: str | None, *, fills_context: bool) -> bytes:
    """What an engine is asked, to score a row.

    It must have room to sample one token, so of a row that fills the context all but the last id is the prompt, and
    the last is named among those whose logprob is wanted in the place after it. Two must be named, or no more than
    the sampled one is shown.
    """
    prompt, sampling = list(ids), {**_ONE_TOKEN, "top_k": 1}  # which engines that return sampling masks insist on
    if fills_context:
        last = prompt.pop()
        sampling = {**_ONE_TOKEN, **_UNSHAPED, "logprobs": 2, "logprob_token_ids": [last, 0 if last else 1]}
    named = {} if model is None else {"model": model}
    return orjson.dumps({"token_ids": prompt, "sampling_params": sampling, "stream": False, **named})


def read_scores(body: bytes, ids: Sequence[int], *, fills_context: bool) -> Scores:
    """An engine's answer to `encode_call`.

    Raises:
        EngineProtocolError: it is none, or an id has no logprob that is finite and at or below zero.
    """
    answer = loaded(body)
    entries = answer.get("prompt_logprobs") if isinstance(answer, dict) else None
    choices = answer.get("choices") if isinstance(answer, dict) else None
    due = len(ids) - fills_context
    if not isinstance(entries, list) or len(entries) != due:
        many = f"{len(entries)} prompt_logprobs" if isinstance(entries, list) else "no prompt_logprobs"
        raise EngineProtocolError(f"the engine sent {many} of {due} positions")
    logprobs: list[float | None] = [0.0]
    logprobs += [_prompt_logprob(at, ids[at], entries[at]) for at in range(1, due)]
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    if fills_context:
        logprobs.append(_last_logprob(due, ids[due], choice))
    return Scores(logprobs, _versions(choice.get("weight_versions")))


def encode_scores(scores: Scores, engine: str, rank: int) -> bytes:
    """The gateway's answer."""
    said = {"logprobs": scores.logprobs, "engine": engine, "rank": rank}
    return orjson.dumps(said | ({"policy_versions": scores.versions} if scores.versions else {}))


def _prompt_logprob(at: int, token_id: int, entry: object) -> float:
    scored = entry.get(str(token_id)) if isinstance(entry, dict) else None
    return _checked(at, token_id, scored)


def _last_logprob(at: int, token_id: int, choice: Mapping[str, object]) -> float | None:
    """Of the id in the place of the sampled one, where it is named."""
    listed = choice.get("logprobs")
    content = listed.get("content") if isinstance(listed, dict) else None
    first = content[0] if isinstance(content, list) and content and isinstance(content[0], dict) else {}
    others = first.get("top_logprobs")
    named = (token_id, f"token_id:{token_id}")
    for entry in [first, *(others if isinstance(others, list) else [])]:
        if isinstance(entry, dict) and entry.get("token_id", entry.get("token")) in named:
            return _checked(at, token_id, entry)
    return None


def _checked(at: int, token_id: int, scored: object) -> float:
    value = scored.get("logprob") if isinstance(scored, dict) else None
    if not isinstance(value, int | float) or value is False or not MISSING_LOGPROB < value <= 0:
        shown = "no logprob" if value is None else f"{value!r:.42} as the logprob"
        raise EngineProtocolError(f"the engine gave {shown} of token id {token_id} at position {at}")
    return float(value)


def _versions(spans: object) -> tuple[str, ...]:
    named = [span.get("version") for span in spans if isinstance(span, dict)] if isinstance(spans, list) else []
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str) and name != "default"))
