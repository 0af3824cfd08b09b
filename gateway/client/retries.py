"""When a call is made again: one policy for both clients."""

from dataclasses import dataclass, field
from typing import Any

from tenacity import RetryCallState, retry_if_exception, stop_after_attempt, stop_before_delay, wait_random_exponential

from gateway.client.calls import Call
from gateway.client.errors import GatewayCallError, GatewayConnectionError

MOST_TRIES = 100
_FIRST_S, _LONGEST_S = 0.2, 2.0
"""What is waited before another try grows from the one to the other, and is drawn at random below that."""
_LEAST_S = 0.05
_backoff = wait_random_exponential(_FIRST_S, _LONGEST_S, min=_LEAST_S)


@dataclass(slots=True)
class Tries:
    """What is known of a call over its tries. Mutable."""

    call: Call[Any]
    lost: bool = field(default=False, init=False)
    """Whether one of them may have been carried out."""

    def note(self, failure: GatewayConnectionError) -> None:
        """One of them got no answer."""
        self.lost = self.lost or failure.sent

    def is_worth_another(self, failure: BaseException) -> bool:
        """Whether to try again after this: it was not carried out, or does no harm when it is done twice."""
        if self.call.once:
            return False
        if isinstance(failure, GatewayConnectionError):
            return not failure.sent or self.call.repeatable
        return isinstance(failure, GatewayCallError) and failure.retryable and failure.status in (429, 503)


def policy(tries: Tries, patience_s: float) -> dict[str, Any]:
    """What tenacity is to do with a call, for `patience_s` at most; then the last failure is raised as it was."""
    return {
        "retry": retry_if_exception(tries.is_worth_another),
        "wait": _wait_s,
        "stop": stop_after_attempt(MOST_TRIES) | stop_before_delay(patience_s),
        "reraise": True,
    }


def _wait_s(state: RetryCallState) -> float:
    """As long as the gateway says, and a little more, so that not all come back at once; or a while that grows."""
    failure = state.outcome.exception() if state.outcome else None
    told_s = failure.retry_after_s if isinstance(failure, GatewayCallError) else None
    return (told_s or 0.0) + _backoff(state)
