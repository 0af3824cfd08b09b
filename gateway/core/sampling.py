"""How a turn was sampled: the parameters in effect, the distribution that they make, and what its logprobs are worth.

`docs/sampling.md` says what each word means.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, assert_never

from gateway.core.types import JsonObject, Sampling

Distribution = Literal["exact", "truncated", "penalised", "constrained", "greedy", "unknown"]
LogprobsMode = Literal["processed", "raw", "untold", "unknown"]
"""Of what an engine returns logprobs: of the distribution that it samples from, or of the model's own; of one of these,
but it has not told which; or who knows, since what it told is neither, or nothing can be told.
"""

_COLDEST = 0.01
"""Where vLLM raises a temperature to that is above 0 and below."""
_MOST_BIAS = 100.0
_NO_SEED = -1
_SEEDS = 1 << 64
"""Seeds are signed numbers of 64 bits: after the greatest comes the least."""
_DEFAULTS = Sampling(
    min_tokens=0,
    temperature=1.0,
    top_p=1.0,
    top_k=0,
    min_p=0.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
    repetition_penalty=1.0,
    include_stop_str_in_output=False,
    ignore_eos=False,
)
"""An engine's own. Not those of the model's generation config: vLLM does not apply them to token ids."""


def said(sampling: Sampling) -> dict[str, Any]:
    """The parameters that are set, by name. A flag that is false is set; an empty list of stops is not."""
    values = {parameter.name: getattr(sampling, parameter.name) for parameter in fields(Sampling)}
    return {name: value for name, value in values.items() if value is not None and value != ()}


def clamped(sampling: Sampling) -> Sampling:
    """What an engine makes of parameters; greedy sampling leaves nothing to truncate."""
    # Source: vLLM 0.32, SamplingParams.from_optional and its __post_init__.
    bias = {token: min(_MOST_BIAS, max(-_MOST_BIAS, value)) for token, value in (sampling.logit_bias or {}).items()}
    warmth = sampling.temperature
    sampling = replace(
        sampling,
        temperature=_COLDEST if warmth is not None and 0 < warmth < _COLDEST else warmth,
        top_k=0 if sampling.top_k == -1 else sampling.top_k,
        seed=None if sampling.seed == _NO_SEED else sampling.seed,
        thinking_token_budget=None if sampling.thinking_token_budget == -1 else sampling.thinking_token_budget,
        logit_bias=bias or None,
    )
    return replace(sampling, top_p=1.0, top_k=0, min_p=0.0) if sampling.temperature == 0 else sampling


def nth_seed(first: int | None, index: int) -> int | None:
    """The seed of one of several answers, which count up from that of the first; ``None`` where it has none."""
    if first is None or first == _NO_SEED:
        return None
    passes = first < _NO_SEED <= first + index
    return (first + index + passes + _SEEDS // 2) % _SEEDS - _SEEDS // 2


def overridden(asked: Sampling, governed: Sampling) -> dict[str, Any]:
    """Of the parameters that an agent `asked` for, those that it does not get; as it asked for them.

    What means the same to an engine, such as a `top_k` of -1 and of 0, is no difference.
    """
    given = {name: getattr(governed, name) for name in said(asked)}
    return {name: value for name, value in said(asked).items() if _meaning(name, value) != _meaning(name, given[name])}


def _meaning(name: str, value: Any) -> object:
    """What an engine makes of one parameter."""
    return getattr(clamped(Sampling(**{name: value})), name)


@dataclass(frozen=True, slots=True)
class SamplingRecord:
    """How one turn was sampled."""

    effective: Sampling
    """The parameters in effect, with an engine's defaults filled in and its clamps made."""
    stop_token_ids: tuple[int, ...]
    overridden: JsonObject
    """What the agent had asked for instead, by parameter."""
    distribution: Distribution
    logprobs_mode: LogprobsMode

    @property
    def logprobs_exact(self) -> bool:
        """Whether the logprobs are known to be what the parameters in effect make of the model's logits.

        What logits processors do with `extra_args` is in processed logprobs, and nobody can say what it was; raw ones
        are taken before. Of an engine that has not told they are where both kinds are.
        """
        match self.logprobs_mode:
            case "processed":
                return self._has_known_distribution
            case "raw":
                return self._is_plain
            case "untold":
                return self._is_plain and self._has_known_distribution
            case "unknown":
                return False
        assert_never(self.logprobs_mode)

    @property
    def hangs_on_mode(self) -> bool:
        """Whether processed logprobs would be exact and raw ones not.

        With `extra_args` it is the other way round, and nobody is asked.
        """
        return self._has_known_distribution and not (self._is_plain and self.logprobs_mode != "unknown")

    @property
    def _has_known_distribution(self) -> bool:
        return self.distribution not in ("greedy", "unknown")

    @property
    def _is_plain(self) -> bool:
        """Whether raw logprobs are processed ones, too."""
        used = self.effective
        return used.temperature == 1 and not (is_penalised(used) or is_truncated(used) or is_confined(used))

    def also(self, mode: LogprobsMode) -> "SamplingRecord":
        """The record of a turn of which another part was sampled where logprobs are of `mode`."""
        if mode == self.logprobs_mode:
            return self
        modes = {mode, self.logprobs_mode}
        if not self._is_plain or "unknown" in modes:
            return replace(self, logprobs_mode="unknown")
        return replace(self, logprobs_mode="untold" if "untold" in modes else "raw")


def record(
    sampling: Sampling,
    *,
    max_tokens: int,
    stop_token_ids: tuple[int, ...] = (),
    overridden: JsonObject | None = None,
    constrained: bool = False,
    logprobs_mode: LogprobsMode = "unknown",
) -> SamplingRecord:
    """The record of a turn that was sampled so, and whose answer was allowed `max_tokens`.

    `constrained` says that a grammar bound the answer.
    """
    least = min(sampling.min_tokens or 0, max_tokens)
    asked = replace(_DEFAULTS, **said(sampling) | {"max_tokens": max_tokens, "min_tokens": least})
    used = clamped(asked)
    return SamplingRecord(
        effective=used,
        stop_token_ids=stop_token_ids,
        overridden=overridden or {},
        distribution=_distribution(used, constrained=constrained),
        logprobs_mode=logprobs_mode,
    )


def _distribution(used: Sampling, *, constrained: bool) -> Distribution:
    """The first that applies."""
    if used.temperature == 0:
        return "greedy"
    if used.extra_args:
        return "unknown"
    if constrained or is_confined(used):
        return "constrained"
    return "penalised" if is_penalised(used) else "truncated" if is_truncated(used) else "exact"


def is_penalised(used: Sampling) -> bool:
    """Whether single tokens are made more or less likely than the model has them."""
    neutral = (used.presence_penalty, used.frequency_penalty, used.repetition_penalty) == (0, 0, 1)
    return not neutral or any((used.logit_bias or {}).values()) or bool(used.min_tokens)


def is_confined(used: Sampling) -> bool:
    """Whether some ids, likely or not, cannot be sampled where they stand."""
    return bool(used.bad_words or used.allowed_token_ids) or used.thinking_token_budget is not None


def is_truncated(used: Sampling) -> bool:
    """Whether unlikely tokens cannot be sampled at all."""
    return used.top_p != 1 or used.top_k != 0 or used.min_p != 0
