"""What can go wrong, whose fault it is, and whether to try again.

    GatewayError
    ├─ ClientError            the caller's request
    │  ├─ BadRequest 400      ├─ ContextLengthExceeded 400   ├─ Unauthorized 401   ├─ Forbidden 403
    │  ├─ UnknownSession 404  ├─ SessionExists 409           ├─ SessionClosed 409  ├─ TooLarge 413
    │  ├─ TooManyRequests 429 └─ UnknownEngine 404
    ├─ EngineError            the engine, or the way to it
    │  ├─ EngineRefused 4xx   ├─ EngineProtocolError 502     ├─ EngineUnavailable 503
    │  │                                                  │  ├─ EngineLost 503
    │  │                                                  │  ├─ LogprobsUntold 503
    │  │                                                  │  └─ NoRank 503
    │  └─ EngineNotPaused 502
    ├─ GatewayDraining 503    the gateway itself, which is about to end
    ├─ PauseEnded 409         a pause, which was over before it was as it was asked for
    ├─ RendererError 500      the renderer broke its contract
    └─ LedgerError 500        we would have recorded something untrue
    ConfigError               start-up only: exit 2, one line naming the setting and the remedy
    └─ PackageAbsent          an optional package, which another choice may do without

Errors are raised where they are known and turned into a caller's own dialect in one place, the server's middleware.
"""


class GatewayError(Exception):
    """A failure with an answer for the caller: an HTTP status, a code, and whether a retry can help."""

    status: int = 500
    code: str = "internal_error"
    retryable: bool = False

    def __init__(self, message: str, *, param: str | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        """The request field at fault, where there is one."""
        self.status = status or self.status


class ClientError(GatewayError):
    """The caller's fault; the same request will fail again."""

    status = 400


class BadRequest(ClientError):
    """The request is malformed, or asks for what is not offered."""

    code = "invalid_request"


class MultimodalUnsupported(BadRequest):
    """A part of a message that the renderer cannot express."""

    code = "multimodal_unsupported"


class LogprobsNotExact(BadRequest):
    """The logprobs would not be those of the distribution that is sampled from, and were asked to be."""

    code = "logprobs_not_exact"


class ContextLengthExceeded(ClientError):
    """The prompt leaves no room for an answer; harnesses compact their history on this code."""

    code = "context_length_exceeded"


class Unauthorized(ClientError):
    """No key, or a wrong one."""

    status = 401
    code = "invalid_api_key"


class Forbidden(ClientError):
    """A known key that does not open this route."""

    status = 403
    code = "forbidden"


class UnknownSession(ClientError):
    """Nothing is known under this session id, or no longer."""

    status = 404
    code = "session_not_found"


class UnknownEngine(ClientError):
    """No engine of this gateway has that URL, or it has no such rank."""

    status = 404
    code = "engine_not_found"


class SessionExists(ClientError):
    """A session of that id is there already."""

    status = 409
    code = "session_exists"


class SessionClosed(ClientError):
    """The session takes no more turns: it was finished or deleted, for good."""

    status = 409
    code = "session_closed"


class TooLarge(ClientError):
    """The body is over `max_body_bytes`."""

    status = 413
    code = "request_too_large"


class TooManyRequests(ClientError):
    """The session's budget of turns or completion tokens is used up; no later try will find more."""

    status = 429
    code = "session_budget_exhausted"


class EngineError(GatewayError):
    """The engine failed, or could not be reached; the request itself may be fine."""


class EngineRefused(EngineError):
    """The engine answered 4xx: the status is relayed, its text cleaned of what it echoes."""

    code = "engine_refused"


class EngineProtocolError(EngineError):
    """The engine answered without the evidence that a turn needs, or in a way we cannot read."""

    status = 502
    code = "engine_protocol_error"


class EngineUnavailable(EngineError):
    """The engine is down, failed, or dropped the call; another try may succeed."""

    status = 503
    code = "engine_unavailable"
    retryable = True


class NoRank(EngineUnavailable):
    """No engine answers, or none has room: nothing is wrong with any call, and the gateway says it by itself."""


class LogprobsUntold(EngineUnavailable):
    """Logprobs must be exact, and the engine has not told what its are; asked once more, it may."""

    def __init__(self, message: str, *, rest_s: float) -> None:
        super().__init__(message)
        self.rest_s = rest_s
        """How long it is not asked again."""


class EngineNotPaused(EngineError):
    """The engine does not do as `--engine-control` has it: it refuses to be paused, or knows nothing of that."""

    status = 502
    code = "engine_not_paused"


class PauseEnded(GatewayError):
    """The pause was over before it was as it was asked for: turns may run. Asked for with a longer lease it may be."""

    status = 409
    code = "pause_ended"
    retryable = True


class GatewayDraining(GatewayError):
    """The gateway takes no new sessions, or no turns at all, since it is about to end; another may."""

    status = 503
    code = "gateway_draining"
    retryable = True


class EngineLost(EngineUnavailable):
    """The connection to the engine could not be made, or broke."""


class RendererError(GatewayError):
    """The renderer broke its contract."""

    code = "renderer_error"


class LedgerError(GatewayError):
    """Recording this would have put something untrue into the ledger."""

    code = "ledger_error"


class ConfigError(Exception):
    """The gateway cannot start as configured: one line that names the setting and the remedy."""


class PackageAbsent(ConfigError):
    """An optional package is not installed, which is no fault where something else serves as well."""

    def __init__(self, package: str, remedy: str) -> None:
        super().__init__(f"{package} is not installed: {remedy}")
        self.package = package
