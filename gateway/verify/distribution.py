"""From which distribution a turn was sampled, and whether its logprobs are those of it: derived from its parameters."""

from gateway.verify.mismatch import Json
from gateway.verify.row import Turn

_NEUTRAL = {"presence_penalty": 0, "frequency_penalty": 0, "repetition_penalty": 1}
_MODES = ("processed", "raw", "untold", "unknown")


def check_distribution(turn: Turn) -> None:
    """Hold `distribution` and `logprobs_exact` to the rest of the turn.

    Raises:
        Mismatch: one is something else.
    """
    said = turn.said
    sampling: Json = said["sampling"]
    if said["logprobs_mode"] not in _MODES:
        raise turn.mismatch("logprobs_mode", f"one of {', '.join(_MODES)}")
    try:
        found, exact = _derived(sampling, said["logprobs_mode"], constrained="constrained" in said["flags"])
    except TypeError:
        raise turn.mismatch("sampling", "numbers for parameters") from None
    turn.expect("distribution", found)
    turn.expect("logprobs_exact", exact)


def _derived(sampling: Json, mode: str, *, constrained: bool) -> tuple[str, bool]:
    """The first distribution that applies, and whether logprobs of `mode` are exact."""
    temperature = _number(sampling, "temperature", 1)
    greedy, penalised, truncated = temperature == 0, _penalised(sampling), _truncated(sampling)
    confined = _confined(sampling)
    applying = {
        "greedy": greedy,
        "unknown": bool(sampling.get("extra_args")),
        "constrained": constrained or confined,
        "penalised": penalised,
        "truncated": truncated,
        "exact": True,
    }
    distribution = next(name for name, applies in applying.items() if applies)
    known = distribution not in ("greedy", "unknown")
    plain = temperature == 1 and not (penalised or truncated or confined)
    exact = {"processed": known, "raw": plain, "untold": known and plain, "unknown": False}
    return distribution, exact[mode]


def _penalised(sampling: Json) -> bool:
    penalties = any(_number(sampling, name, neutral) != neutral for name, neutral in _NEUTRAL.items())
    bias = sampling.get("logit_bias") or {}
    if not isinstance(bias, dict):
        raise TypeError("logit_bias")
    return penalties or any(bias.values()) or _number(sampling, "min_tokens", 0) > 0


def _confined(sampling: Json) -> bool:
    lists = [sampling.get(name) or [] for name in ("bad_words", "allowed_token_ids")]
    if not all(isinstance(listed, list) for listed in lists):
        raise TypeError("a list")
    return any(lists) or _number(sampling, "thinking_token_budget", -1) >= 0


def _truncated(sampling: Json) -> bool:
    narrow = _number(sampling, "top_p", 1) < 1 or _number(sampling, "min_p", 0) > 0
    return narrow or _number(sampling, "top_k", 0) > 0


def _number(sampling: Json, name: str, neutral: float) -> float:
    """A parameter, or what leaves sampling as it is where none is set."""
    value = sampling.get(name)
    if value is not None and type(value) not in (int, float):
        raise TypeError(name)
    return neutral if value is None else value
