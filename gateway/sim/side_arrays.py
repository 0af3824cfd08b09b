"""What an engine with the flags for it says beside ids and logprobs, always the same of an id at a position."""

import base64
from collections.abc import Sequence

_EXPERTS = 64
_MOST_LIKELY = 8
"""Ids that are left to sample from, whatever `top_k` allows."""


def routed_experts(ids: Sequence[int], start: int, layers: int, top_k: int) -> str:
    """The experts that each of `ids` from position `start` on was sent to, as vLLM writes them.

    The last id was sampled and never read, so nothing is said of it.
    """
    read = list(enumerate(ids[:-1]))[start:]
    numbers = bytes(
        (token_id + 3 * at + 5 * layer + choice) % _EXPERTS
        for at, token_id in read
        for layer in range(layers)
        for choice in range(top_k)
    )
    return base64.b64encode(_npy(numbers, (len(read), layers, top_k))).decode()


def sampling_mask(token_id: int, top_k: int) -> list[int]:
    """The ids that could have been sampled in the place of `token_id`, and it itself."""
    count = min(top_k, _MOST_LIKELY)
    first = max(0, token_id - count // 2)
    return list(range(first, first + count))


def _npy(numbers: bytes, shape: tuple[int, ...]) -> bytes:
    """A file of bytes as `numpy.save` writes it."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
    padded = header.ljust(-(len(header) + 11) % 64 + len(header)) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + numbers
