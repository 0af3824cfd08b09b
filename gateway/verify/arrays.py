"""Arrays as a file writes them, in JSON or base64, and the bytes that are hashed.

In memory they are little-endian on every machine that this runs on.
"""

import math
from array import array
from base64 import b64decode, b64encode, b85decode, b85encode
from binascii import Error
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias, cast

from gateway.verify.digest import json_bytes, of_bytes
from gateway.verify.mismatch import Json, Mismatch
from gateway.verify.shape import LIST, OBJECT, TEXT, WHOLE, check_object

Numbers: TypeAlias = "array[int] | array[float]"

_CODES = {"<u4": "I", "|u1": "B", "<f4": "f"}
_ITEM_BYTES = {"|u1": 1, "<u2": 2, "<i4": 4, "<u4": 4}
_OLD_NAMES = {"uint8": "|u1", "uint16": "<u2", "int32": "<i4", "uint32": "<u4"}
_BASES: dict[str, tuple[Callable[[str], bytes], Callable[[bytes], bytes]]] = {
    "base64": (b64decode, b64encode),
    "base85": (b85decode, b85encode),
}


def read_array(value: object, at: str, dtype: str) -> Numbers:
    """An array of one dimension, in either form.

    Raises:
        Mismatch: a number is none of `dtype`, or the base64 form says something else.
    """
    if isinstance(value, dict):
        shape, data = _read_form(value, at, (dtype,))[1:]
        if len(shape) != 1:
            raise Mismatch(f"{at}.shape", "one dimension", shape)
        return _numbers(dtype, data)
    assert isinstance(value, list)
    return _read_list(value, at, dtype)


def _read_list(values: list[Any], at: str, dtype: str) -> Numbers:
    types = (float, int) if dtype == "<f4" else (int,)
    if set(map(type, values)) - set(types):
        place, found = next((place, found) for place, found in enumerate(values) if type(found) not in types)
        raise Mismatch(f"{at}[{place}]", "a number" if dtype == "<f4" else "a whole number", found)
    try:
        read = array(_CODES[dtype], values)
        if read.tolist() == values:
            return read
    except OverflowError:
        pass
    place, found = next((place, found) for place, found in enumerate(values) if not _fits(found, dtype))
    raise Mismatch(f"{at}[{place}]", f"a number of type {dtype}", found)


def _fits(value: float, dtype: str) -> bool:
    try:
        return array(_CODES[dtype], [value])[0] == value
    except OverflowError:
        return False


def _read_form(value: object, at: str, dtypes: tuple[str, ...]) -> tuple[str, list[int], bytes]:
    """Dtype, shape and bytes of an array in base64."""
    form = check_object(value, at, {"dtype": TEXT, "shape": LIST, "base64": TEXT})
    dtype, shape = form["dtype"], form["shape"]
    if dtype not in dtypes:
        raise Mismatch(f"{at}.dtype", " or ".join(dtypes), dtype)
    return dtype, shape, _read_data(form, at, "base64", dtype)


def _read_data(form: Json, at: str, name: str, dtype: str) -> bytes:
    """The bytes of an array, which are as many as its shape says."""
    decode, encode = _BASES[name]
    shape, text = form["shape"], form["data" if name == "base85" else name]
    if not shape or not all(map(WHOLE.holds, shape)):
        raise Mismatch(f"{at}.shape", "whole numbers", shape)
    try:
        data = decode(text)
    except (Error, ValueError):
        data = b""
    if encode(data).decode() != text:  # also where spare bits are set, which decoding leaves out
        raise Mismatch(at, f"an array in {name}", text)
    due = math.prod(shape) * _ITEM_BYTES.get(dtype, 4)
    if len(data) != due:
        raise Mismatch(at, f"{due} bytes of {dtype} in shape {shape}", f"{len(data)} bytes")
    return data


def _numbers(dtype: str, data: bytes) -> Numbers:
    read: Numbers = array(_CODES[dtype])
    read.frombytes(data)
    return read


@dataclass(frozen=True, slots=True)
class SideArray:
    """One item for each of the row's positions from `start` on: of one shape, or of any length where it has offsets."""

    start: int
    dtype: str
    shape: list[int]
    data: bytes
    offsets: "array[int] | None"

    @property
    def end(self) -> int:
        """The position after the last."""
        return self.start + (self.shape[0] if self.offsets is None else len(self.offsets) - 1)

    def bounds(self, start: int, end: int) -> slice:
        """Where the bytes of positions `start` to `end` are."""
        if self.offsets is None:
            size = math.prod(self.shape[1:]) * _ITEM_BYTES[self.dtype]
            return slice((start - self.start) * size, (end - self.start) * size)
        width = _ITEM_BYTES[self.dtype]
        return slice(self.offsets[start - self.start] * width, self.offsets[end - self.start] * width)

    def hash_of(self, start: int, end: int) -> str:
        """The hash of the part that speaks of positions `start` to `end`."""
        data = self.data[self.bounds(start, end)]
        counted, shape = b"", [end - start, *self.shape[1:]]
        if self.offsets is not None:
            first = self.offsets[start - self.start]
            offsets = array("I", [at - first for at in self.offsets[start - self.start : end - self.start + 1]])
            counted, shape = offsets.tobytes(), [offsets[-1]]
        return of_bytes(json_bytes({"dtype": self.dtype, "shape": shape, "start": start}), counted, data)

    def items(self, position: int) -> list[int]:
        """The numbers of one position."""
        data = self.data[self.bounds(position, position + 1)]
        size = _ITEM_BYTES[self.dtype]
        signed = self.dtype == "<i4"
        return [int.from_bytes(data[at : at + size], "little", signed=signed) for at in range(0, len(data), size)]


def read_side_array(value: object, at: str) -> SideArray | None:
    """A side array, ``None`` where the row has none of that name.

    Raises:
        Mismatch: it is not what its own fields say.
    """
    if value is None:
        return None
    if isinstance(value, dict) and "data" in value:
        old = check_object(value, at, {"start": WHOLE, "data": TEXT, "shape": LIST, "dtype": TEXT})
        if old["dtype"] not in _OLD_NAMES:
            raise Mismatch(f"{at}.dtype", " or ".join(_OLD_NAMES), old["dtype"])
        dtype = _OLD_NAMES[old["dtype"]]
        return SideArray(old["start"], dtype, old["shape"], _read_data(old, at, "base85", dtype), None)
    held: Json = check_object(value, at, {"start": WHOLE, "array": OBJECT})
    dtype, shape, data = _read_form(held["array"], f"{at}.array", tuple(_ITEM_BYTES))
    if "offsets" not in held:
        return SideArray(held["start"], dtype, shape, data, None)
    check_object(held["offsets"], f"{at}.offsets", {})
    offsets = cast("array[int]", read_array(held["offsets"], f"{at}.offsets", "<u4"))
    tiled = offsets and offsets[0] == 0 and all(before <= after for before, after in pairwise(offsets))
    if not tiled or [offsets[-1]] != shape:
        raise Mismatch(f"{at}.offsets", f"offsets that tile {shape} numbers", "others")
    return SideArray(held["start"], dtype, shape, data, offsets)
