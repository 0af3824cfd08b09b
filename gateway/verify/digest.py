"""Hashes as the certificate defines them; written from the document, and not from who writes them."""

import json
from hashlib import sha256

CHAIN_START = "0" * 64


def of_bytes(*parts: bytes | memoryview) -> str:
    """SHA-256 of the parts one after the other, in lower-case hexadecimal."""
    digest = sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def json_bytes(value: object) -> bytes:
    """The one spelling of a JSON value that is hashed."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def of_json(value: object) -> str:
    """The hash of a JSON value."""
    return of_bytes(json_bytes(value))


def chained(chain: str, link: str) -> str:
    """The chain with one more link; both are hexadecimal text."""
    return of_bytes((chain + link).encode())
