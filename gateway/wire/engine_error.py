"""What an engine's errors mean for the caller; their text is cleaned of what it echoes."""

from collections.abc import Mapping

import orjson

from gateway import errors
from gateway.core.echo import tells_context_is_full, without_echo
from gateway.errors import EngineProtocolError, EngineUnavailable, GatewayError

_ENABLE_SCALE_OUT = "the engine does not serve /inference/v1/generate: restart `vllm serve` with --enable-scale-out"


def decode_error(status: int, body: bytes) -> GatewayError:
    """What an answer other than 200 means for the caller, and what to do about it."""
    answer = loaded(body)
    error = answer.get("error") if isinstance(answer, dict) else None
    if status == 403 or (status in (404, 405) and not isinstance(error, dict)):
        return EngineProtocolError(_ENABLE_SCALE_OUT)
    if status == 401:
        return EngineProtocolError("the engine wants an API key: start the gateway with --engine-key")
    if status < 400:
        return EngineProtocolError(f"the engine answered {status} where a stream was due")
    return reported(error, status)


def reported(error: object, status: int) -> GatewayError:
    """What an error object means, which came with `status` or in a stream; its own code counts first."""
    fields: Mapping[object, object] = error if isinstance(error, dict) else {"message": error}
    code, message = fields.get("code"), fields.get("message")
    status = code if isinstance(code, int) and 400 <= code < 600 else status
    text = without_echo(message) if isinstance(message, str) else "without saying why"
    if tells_context_is_full(text):
        return errors.ContextLengthExceeded(text)
    if status >= 500 or status in (401, 403):  # a key or a switch that is not the caller's to mend
        return EngineUnavailable(f"the engine failed ({status}): {text}")
    refused = errors.EngineRefused(f"the engine refused the request ({status}): {text}", status=status)
    refused.retryable = status in (408, 429)
    return refused


def loaded(body: bytes) -> object:
    """The JSON value of `body`; ``None`` if it is not JSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
