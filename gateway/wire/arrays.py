"""Arrays as they are written in JSON: little-endian bytes in base64, with what they mean."""

import base64
import math
import re
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, cast

from gateway.core.side_arrays import ITEM_BYTES, SideArray
from gateway.core.types import JsonObject

ROW_ARRAYS = {"token_ids": "I", "loss_mask": "B", "logprobs": "f", "loss_weights": "f", "teacher_logprobs": "f"}
"""Those of a row that have a number for each id, with the kind of number that they hold."""
_DTYPES = {"I": "<u4", "B": "|u1", "f": "<f4"}
_NAMES = {"|u1": "uint8", "<u2": "uint16", "<i4": "int32", "<u4": "uint32"}
_MAGIC = b"\x93NUMPY"
_HEADER = re.compile(rb"\{'descr': '([<>|=][a-zA-Z]\d+)', 'fortran_order': (False|True), 'shape': \(([\d, ]*)\), \}\s*")
"""As numpy writes it. A literal in general, but to evaluate what came over a network is not called for."""


def encode_array(dtype: str, shape: Sequence[int], data: bytes) -> JsonObject:
    """An array of numbers, in C order; `dtype` as numpy writes it."""
    return {"dtype": dtype, "shape": list(shape), "base64": base64.b64encode(data).decode()}


def encode_numbers(values: "array[Any]") -> JsonObject:
    """One of `ROW_ARRAYS`."""
    return encode_array(_DTYPES[values.typecode], (len(values),), values.tobytes())


def read_numbers(name: str, given: object) -> "array[Any]":
    """One of `ROW_ARRAYS`, written as a list or in base64.

    Raises:
        LookupError, TypeError, ValueError, OverflowError: it is neither, or holds something else.
    """
    written = base64.b64decode(given["base64"]) if isinstance(given, Mapping) else cast(Sequence[Any], given)
    return array(ROW_ARRAYS[name], written)


def encode_side_array(held: SideArray) -> JsonObject:
    """A side array with the positions that it speaks of."""
    values = encode_array(held.dtype, held.shape, held.data)
    if held.offsets is None:
        return {"start": held.start, "array": values}
    offsets = encode_array("<u4", (len(held.offsets),), held.offsets.tobytes())
    return {"start": held.start, "offsets": offsets, "array": values}


def encode_old_form(held: SideArray) -> JsonObject:
    """Items of one shape as trainers read routed experts before there was the form above: in base85.

    Readers that know no `dtype` take the numbers for bytes.
    """
    written = base64.b85encode(held.data).decode()
    return {"data": written, "shape": list(held.shape), "dtype": _NAMES[held.dtype], "start": held.start}


def read_npy(written: bytes) -> tuple[str, tuple[int, ...], bytes]:
    """Type, shape and numbers of a ``.npy`` file of whole numbers in C order.

    Raises:
        ValueError: it is none, or its size is not what its shape says; the text says which.
    """
    length_bytes = 2 if written[6:7] == b"\1" else 4
    end = 8 + length_bytes + int.from_bytes(written[8 : 8 + length_bytes], "little")
    header = _HEADER.fullmatch(written[8 + length_bytes : end])
    if not written.startswith(_MAGIC) or header is None:
        raise ValueError("it is no .npy")
    dtype, fortran, sizes = header[1].decode(), header[2] == b"True", header[3].decode()
    shape = tuple(int(size) for size in re.findall(r"\d+", sizes))
    if dtype not in ITEM_BYTES or fortran:
        raise ValueError(f"it holds {dtype} in {'Fortran' if fortran else 'C'} order")
    data = written[end:]
    if len(data) != math.prod(shape) * ITEM_BYTES[dtype]:
        raise ValueError(f"it holds {len(data)} bytes, which are no {dtype} of shape {shape}")
    return dtype, shape, data
