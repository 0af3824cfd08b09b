"""What can go wrong between a program and its gateway.

GatewayClientError
├─ GatewayCallError         the gateway, or something before it, answered that it does not do it
├─ GatewayConnectionError   no answer: not reached, too slow, or the connection broke
├─ GatewayProcessError      a process that was started did not start, or ended badly
├─ PauseLost                a pause was over before it was ended here: turns may have run meanwhile
└─ PackageMissing           an optional package is not installed
"""

from collections.abc import Sequence


class GatewayClientError(Exception):
    """Whatever this package raises of itself; the text says what to do."""


class GatewayCallError(GatewayClientError):
    """The answer was a refusal."""

    def __init__(
        self,
        message: str,
        *,
        call: str,
        status: int,
        code: str | None,
        retryable: bool,
        request_id: str | None,
        retry_after_s: float | None = None,
    ) -> None:
        remedy = "the same call may succeed later" if retryable else "the same call will fail again: change it"
        named = f", request {request_id}" if request_id else ""
        super().__init__(f"{call}: {message} ({status} {code or 'without a code'}{named}; {remedy})")
        self.message = message
        """What the gateway said."""
        self.status = status
        self.code = code
        """The gateway's name for it, as ``session_exists``; ``None`` where something before it answered."""
        self.retryable = retryable
        self.request_id = request_id
        """By which the gateway's log names the call."""
        self.retry_after_s = retry_after_s


class GatewayConnectionError(GatewayClientError):
    """There was no answer."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
        """Whether the gateway may have seen the call, and done what it asks for."""


class GatewayProcessError(GatewayClientError):
    """A process did not start, or did not end as it should."""

    def __init__(self, message: str, *, exit_code: int | None, last_lines: Sequence[str]) -> None:
        said = "".join(f"\n  {line}" for line in last_lines)
        super().__init__(f"{message}; its last words on standard error:{said}" if said else message)
        self.exit_code = exit_code
        """``None`` where it had not ended; below 0 it is the number of the signal that ended it."""
        self.last_lines = tuple(last_lines)


class PauseLost(GatewayClientError):
    """The pause ended, by its lease or by somebody's resume, while it was relied upon."""


class PackageMissing(GatewayClientError, ImportError):
    """An optional package is needed for this."""
