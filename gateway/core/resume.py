"""What becomes of an answer that an engine's call has left unfinished, and what the next call is asked."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal

from gateway.core.sampling import said
from gateway.core.types import CutReason, Sampling

NextStep = Literal["finished", "length", "resume", "restart", "again", "give_up"]
"""A cut answer is complete as it is (by a stop, or since its length is used up); goes on from its ids; is discarded and
made anew; is asked for once more, nothing having been sampled; or fails."""
ResumeOutcome = Literal["finished", "resumed", "restarted", "gave_up"]
"""What has become of a cut answer, where some of it had been sampled; `finished` as it was, by a stop or its length."""

_WANTED: frozenset[CutReason] = frozenset({"pause", "removed"})
"""Cuts that somebody wanted."""
LEAST_ABORTED_IDS = 16
"""So many ids make an abort one of those that a weight sync brings, once in a while; an engine that aborts all the
time brings few."""
MOST_FREE_RESTARTS = 5
"""So often an answer that cannot be gone on with is made anew for free after a cut that somebody wanted: cut again and
again, it would never end."""
_BACK_OFF_S, _MOST_BACK_OFF_S = 0.25, 8.0
FAILURES: frozenset[CutReason] = frozenset({"lost", "engine_error", "no_finish", "stall"})
"""Cuts by which an engine shows that it is not well."""


def is_resumable(sampling: Sampling, *, constrained: bool) -> bool:
    """Whether prompt and partial, sampled on in another call, give the distribution of one call.

    They do not where an engine looks at what it has sampled and not at the prompt, or draws from a state of its own: a
    grammar, penalties of presence and frequency, a seed, `bad_words`, `repetition_detection`, whatever `extra_args`
    make a logits processor do, and `logit_bias` with `min_tokens`.
    """
    # repetition_penalty looks at the prompt, too, and so does thinking_token_budget (docs/resume.md).
    stateful = said(
        Sampling(
            presence_penalty=sampling.presence_penalty or None,
            frequency_penalty=sampling.frequency_penalty or None,
            seed=None if sampling.seed == -1 else sampling.seed,
            bad_words=sampling.bad_words,
            repetition_detection=sampling.repetition_detection,
            extra_args=sampling.extra_args or None,
        )
    )
    return not (constrained or stateful or (sampling.logit_bias and sampling.min_tokens))


def is_free(reason: CutReason, sampled: int, *, resumable: bool, restarts: int) -> bool:
    """Whether it costs no attempt to carry on an answer after a call that brought `sampled` ids.

    A cut that somebody wanted costs none, unless the answer is to be made anew, and was so often before. Nor does an
    abort where the answer goes on from what it brought, if that was something: as long as there is progress there is an
    end. To begin anew is no progress.
    """
    if reason in _WANTED:
        return resumable or not sampled or restarts < MOST_FREE_RESTARTS
    return reason == "abort" and resumable and sampled >= LEAST_ABORTED_IDS


class Attempts:
    """What it may cost to carry one answer on: `most` calls, and `limit_s` of waiting. Mutable: it is spent."""

    def __init__(self, most: int, limit_s: float) -> None:
        self._most = most
        self._limit_s = limit_s
        self._made = 0
        self.waited_s = 0.0
        """How long the answer has waited since it was first cut, but for pauses."""

    def may(self, *, free: bool) -> bool:
        """Whether there may be another call."""
        return self.waited_s < self._limit_s and (free or self._made < self._most)

    def back_off_s(self, *, free: bool, least_s: float = 0.0) -> float:
        """Another call is made: how long it is to wait. The first that costs something need not; each after waits
        twice as long, within the time that is left.
        """
        self._made += not free
        doubled_s = 0.0 if free or self._made < 2 else _BACK_OFF_S * 2.0 ** min(self._made - 2, 16)
        return min(max(least_s, min(_MOST_BACK_OFF_S, doubled_s)), self._limit_s - self.waited_s)


def next_step(
    ids: Sequence[int],
    sampling: Sampling,
    *,
    max_tokens: int,
    stop_ids: Collection[int],
    completes_stop: bool,
    resumable: bool,
    told: bool,
    may_try: bool,
) -> NextStep:
    """What becomes of an answer of which `ids` were sampled.

    `stop_ids` are those that end it, none of them under `ignore_eos`; `completes_stop` says whether a stop string is in
    its text, `told` whether something of it has left to the client, `may_try` whether another call may be made.
    """
    honoured = bool(ids) and not sampling.ignore_eos and ids[-1] in stop_ids
    if completes_stop or (honoured and len(ids) >= (sampling.min_tokens or 0)):
        return "finished"
    if len(ids) >= max_tokens:
        return "length"
    if not may_try:
        return "give_up"
    if not ids:
        return "again"
    if resumable:
        return "resume"
    return "give_up" if told else "restart"


def continued(sampling: Sampling, sampled: int) -> Sampling:
    """The parameters of a call that goes on behind `sampled` ids, which stand in its prompt.

    `thinking_token_budget` stays: engines count the thoughts that stand in the prompt.
    """
    # Source: vLLM 0.32, v1/sample/thinking_budget_state.py (_init_state_entry) and v1/worker/gpu/sample.
    most, least = sampling.max_tokens, sampling.min_tokens
    return replace(
        sampling,
        max_tokens=None if most is None else max(1, most - sampled),
        min_tokens=None if least is None else max(0, least - sampled),
    )


def reuse_of(
    cached_tokens: int | None, *, prompt_tokens: int, same_rank: bool, same_version: bool
) -> Literal["kept", "recomputed"]:
    """Whether a call that went on found what was sampled before in its rank's prefix cache.

    `cached_tokens` is what the engine says it had of `prompt_tokens` and of what was sampled. On another rank the
    prompt may be cached for others, so there it takes more than that.
    """
    if cached_tokens is None:
        return "kept" if same_rank and same_version else "recomputed"
    return "kept" if cached_tokens > (0 if same_rank else prompt_tokens) else "recomputed"
