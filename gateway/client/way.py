"""What both clients know of their gateway, before any of them calls it."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from gateway import __version__
from gateway.client.calls import Call
from gateway.client.errors import PackageMissing

TIMEOUT_S = 60.0
PATIENCE_S = 30.0
CONNECT_S = 5.0


@dataclass(frozen=True, slots=True)
class Way:
    """The way to a gateway.

    Raises:
        ValueError: `url` is none, or a key has characters that no key can have.
    """

    url: str
    admin_key: str | None = field(default=None, repr=False)
    agent_key: str | None = field(default=None, repr=False)
    timeout_s: float = TIMEOUT_S
    """How long one try waits for something, or something more, of an answer."""
    patience_s: float = PATIENCE_S
    """How long calls are tried again that were not carried out."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or "@" in parts.netloc:
            raise ValueError("url must be that of a gateway, like http://host:port; keys go into admin_key, agent_key")
        for name in ("admin_key", "agent_key"):
            key = getattr(self, name) or ""
            if not (key.isascii() and key.isprintable()):
                raise ValueError(f"{name} has characters that no key can have: is there a line break at its end?")

    def headers(self, call: Call[Any]) -> dict[str, str]:
        """Those of a call; what is not ASCII in them is to go out as UTF-8."""
        key = self.admin_key or self.agent_key
        named = {"User-Agent": f"rollout-gateway-client/{__version__}", "Accept": "application/json, */*;q=0.5"}
        named |= {} if call.body is None else {"Content-Type": "application/json"}
        return named | ({"Authorization": f"Bearer {key}"} if key else {}) | dict(call.headers)

    def target(self, call: Call[Any]) -> str:
        """The URL of a call."""
        return self.url + call.path + (f"?{urlencode(call.query)}" if call.query else "")

    def limit_s(self, call: Call[Any]) -> float:
        """How long one try of it may take."""
        return self.timeout_s if call.timeout_s is None else call.timeout_s

    @property
    def openai_key(self) -> str:
        """What an agent shows: its own key, else the only one there is; SDKs want one even where none is needed."""
        return self.agent_key or self.admin_key or "unused"

    def unreached(self, failure: object) -> str:
        """What to say when the gateway was not reached."""
        return f"the gateway at {self.url} cannot be reached: is it running, and is this its URL? ({failure})"

    def unanswered(self, call: Call[Any], failure: object) -> str:
        """What to say when it did not answer."""
        told = str(failure) or type(failure).__name__
        return f"{call.method} {call.path}: no answer from {self.url}, though it may have done it: {told}"


def body_of(call: Call[Any]) -> bytes | None:
    """The body of a call."""
    return None if call.body is None else orjson.dumps(call.body)


def openai_class(name: str) -> Any:  # of a package that may be missing
    """A client of the openai package.

    Raises:
        PackageMissing: it is not installed.
    """
    try:
        import openai
    except ImportError as error:
        raise PackageMissing(f"openai() needs the package {error.name}: pip install openai") from error
    return getattr(openai, name)
