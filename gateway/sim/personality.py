"""What sets the releases of vLLM apart, as far as a client can see it."""

import re
from dataclasses import dataclass

Json = dict[str, object]

_SINCE: dict[str, tuple[int, int]] = {
    "routed_experts": (0, 22),
    "token_offsets": (0, 25),
    **dict.fromkeys(("model", "created", "usage"), (0, 25)),
    "ec_transfer_params": (0, 26),
    **dict.fromkeys(("sampling_mask", "content_parts"), (0, 28)),
    **dict.fromkeys(("prompt_token_ids", "mm_placeholders", "return_token_ids"), (0, 30)),
    **dict.fromkeys(("prompt_token_id_logprobs", "metrics"), (0, 31)),
    **dict.fromkeys(("stop_reason", "weight_versions", "output_mode"), (0, 32)),
    **dict.fromkeys(("reasoning_ended", "reasoning_parser_kwargs"), (0, 32)),
}
"""The release that first sent a key; keys not named here have always been sent."""

RENDER, DERENDER = "/v1/chat/completions/render", "/v1/chat/completions/derender"

_ROUTES: dict[str, tuple[int, int]] = {
    DERENDER: (0, 24),
    "/abort_requests": (0, 26),
    **dict.fromkeys(("/update_weight_version", "/weight_info"), (0, 27)),
    "/inference/v1/abort_requests": (0, 32),
}
"""The release that first had a route; routes not named here have always been there."""

_GATED = ("/inference/v1/generate", "/inference/v1/abort_requests", RENDER, DERENDER)
_DISABLED = "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them."


class Refused(Exception):
    """The engine answers with an error; `in_stream` when it finds out only after a stream has begun."""

    def __init__(self, status: int, body: Json, *, in_stream: bool = False) -> None:
        super().__init__(body)
        self.status, self.body, self.in_stream = status, body, in_stream


@dataclass(frozen=True, slots=True)
class Personality:
    """One release of vLLM, started with or without --enable-scale-out (which releases before 0.30 do not need)."""

    version: str
    scale_out: bool = True

    def __post_init__(self) -> None:
        if not re.match(r"\d+\.\d+", self.version):
            raise ValueError(f"version must be like 0.32.0, not {self.version!r}")

    def since(self, *release: int) -> bool:
        """Whether this is `release`, major and minor, or later."""
        return tuple(int(part) for part in self.version.split(".")[:2]) >= release

    def known(self, body: Json) -> Json:
        """The keys of `body` that this release sends."""
        return {key: value for key, value in body.items() if self.since(*_SINCE.get(key, (0, 0)))}

    def admit(self, path: str) -> None:
        """Raises `Refused` when this release has no such route, or keeps it shut."""
        if not self.since(*_ROUTES.get(path, (0, 0))):
            raise Refused(404, NOT_FOUND)
        if path in _GATED and not self.scale_out and self.since(0, 30):
            raise disabled() if self.since(0, 32) else Refused(404, NOT_FOUND)

    def invalid(self, where: str, message: str, shown: object = None, param: str | None = None) -> Refused:
        """What a field that fails validation gets: releases before 0.32 repeat the request, and name no parameter."""
        loc = f"body.{where}" if where else "body"
        if not self.since(0, 32):
            text = f"1 validation error:\n  {{'loc': ('body', '{where}'), 'msg': '{message}', 'input': {shown}}}"
            return Refused(400, error(400, "Bad Request", text, param))
        kind = f"<{type(shown).__name__} of {len(shown)} items>" if isinstance(shown, list | dict) else shown
        text = f"1 validation error:\n  {{'loc': '{loc}', 'msg': '{message}', 'input': {kind!r}}}"
        return Refused(400, error(400, "Bad Request", text, loc))


NOT_FOUND: Json = {"detail": "Not Found"}


def error(code: int, kind: str, message: str, param: str | None = None) -> Json:
    """An error body as vLLM writes it."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def disabled() -> Refused:
    """What 0.32 and later answer on a route that --enable-scale-out would open."""
    return Refused(403, error(403, "PermissionDeniedError", _DISABLED))


def section(body: Json, name: str) -> Json:
    """The object under `name`; empty when there is none."""
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def ids(value: object) -> tuple[int, ...]:
    """The ids of a list; none when it is no list."""
    return tuple(value) if isinstance(value, list) else ()
