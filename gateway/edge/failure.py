"""What an error is to the caller, to the metrics and to the log."""

import structlog
from aiohttp import web

from gateway.edge.log import where
from gateway.edge.metrics import Metrics
from gateway.edge.request_id import request_id_of
from gateway.errors import GatewayError, NoRank

log = structlog.get_logger()
RESULT = web.RequestKey("RESULT", str)
"""What a call has come to, the first that is known; without it its client has left. See `Result` in metric_table."""


def noted(error: Exception, request: web.Request, metrics: Metrics) -> GatewayError:
    """The error that a caller is told, when it has been counted, and logged where the operator can mend it."""
    failure = error
    about = {"path": request.path, "request_id": request_id_of(request)}
    if not isinstance(error, GatewayError):
        log.error("unexpected failure", **about, **where(error))
        error = GatewayError("the gateway failed unexpectedly; its log says where")
    elif isinstance(error, NoRank):  # expected: the pool has said why
        log.warning("failed", code=error.code, status=error.status, **about)
    elif error.status >= 500:  # the rest is the caller's own
        log.warning("failed", code=error.code, status=error.status, **about, **where(error))
    # It has been told, and would keep what was in hand wherever it passed; and see `_forget` in edge/tasks.
    failure.__traceback__ = None
    metrics.errors.inc(error.code)
    request.setdefault(RESULT, "refused" if error.status < 500 else "failed")
    return error
