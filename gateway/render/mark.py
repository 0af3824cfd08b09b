"""Which renderer made a prompt: its name, its version, and the digest of the template beside it."""

import json
import sys
from functools import lru_cache
from hashlib import sha256
from importlib import metadata

from gateway import __version__
from gateway.core.types import RendererMark
from gateway.render.protocol import Renderer, Tokenizer


def mark_of(renderer: Renderer, tokenizer: Tokenizer) -> RendererMark:
    """What the certificate of a row says of its renderer, or of the one that does its work, its ``wrapped``.

    A renderer need not read the chat template that comes with the tokenizer; which one that was is told anyway.
    """
    while (wrapped := getattr(renderer, "wrapped", None)) is not None:
        renderer = wrapped
    kind = type(renderer)
    template = getattr(tokenizer, "chat_template", None)
    text = template if isinstance(template, str | None) else json.dumps(template, sort_keys=True)  # several, by name
    digest = None if text is None else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return RendererMark(f"{kind.__module__}.{kind.__qualname__}", _version(kind.__module__.partition(".")[0]), digest)


@lru_cache(32)
def _version(package: str) -> str:
    if package == "gateway":
        return __version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(package), "__version__", "unknown"))
