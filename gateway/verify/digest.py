"""Hashes as the certificate defines them; written from the document, and not from who writes them."""

import json
from collections.abc import Collection
from hashlib import sha256

from gateway.verify.mismatch import Json

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


def of_object(value: Json, lists: Collection[str]) -> str:
    """The hash of an object in which these `lists` stand as hashes of their own."""
    return of_json({name: _of_list(held) if name in lists else held for name, held in value.items()})


def _of_list(items: list[object]) -> str:
    return of_bytes(*(of_json(item).encode() for item in items))


def chained(chain: str, link: str) -> str:
    """The chain with one more link; both are hexadecimal text."""
    return of_bytes((chain + link).encode())
