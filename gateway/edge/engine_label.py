"""What an engine is called where its URL must not be shown: in the labels of metrics."""

from hashlib import blake2b
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


class EngineLabels:
    """The label of each engine: ``host:port``, and no two alike. Mutable: who asks for a URL's label makes it.

    An engine below a path has eight hexadecimal digits of its URL's digest behind that, ``host:port/0f3a9c21``: a path
    may be a secret, and two of them may share a port. So has one that shares its port with another scheme.
    """

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}

    def of(self, url: str) -> str:
        """The label of the engine of that URL: the same until it is forgotten."""
        known = self._labels.get(url)
        if known is None:
            parts = urlsplit(url)
            host = parts.hostname or ""
            known = f"{f'[{host}]' if ':' in host else host}:{parts.port or _PORTS.get(parts.scheme, 0)}"
            if parts.path.strip("/") or known in self._labels.values():
                known += f"/{blake2b(url.encode(), digest_size=4).hexdigest()}"
            self._labels[url] = known
        return known

    def forget(self, url: str) -> None:
        """There is no such engine any more."""
        self._labels.pop(url, None)
