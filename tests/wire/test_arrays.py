"""Arrays keep every bit on their way through JSON."""

import base64
import io
import json
from array import array
from pathlib import Path

import numpy as np
import pytest

from gateway.core.side_arrays import SideArray
from gateway.wire.arrays import (
    ROW_ARRAYS,
    encode_array,
    encode_numbers,
    encode_old_form,
    encode_side_array,
    read_npy,
    read_numbers,
)

GOLDEN = Path(__file__).parent / "golden"


def npy(values, version=None):
    """What numpy writes."""
    file = io.BytesIO()
    np.lib.format.write_array(file, values, version=version, allow_pickle=False)
    return file.getvalue()


def read(written):
    """What a trainer makes of the base64 form."""
    return np.frombuffer(base64.b64decode(written["base64"]), written["dtype"]).reshape(written["shape"])


def test_an_array_is_its_little_endian_bytes():
    """Ids, masks and logprobs are all written so."""
    assert encode_array("<u4", (2,), array("I", [1, 1 << 31]).tobytes()) == {
        "dtype": "<u4",
        "shape": [2],
        "base64": "AQAAAAAAAIA=",
    }


@pytest.mark.parametrize("name", ROW_ARRAYS)
def test_numbers_of_a_row_are_read_in_either_form(name):
    """What is no such array is an error."""
    numbers = array(ROW_ARRAYS[name], [0, 1])
    assert read(encode_numbers(numbers)).tolist() == [0, 1]
    for written in (numbers.tolist(), encode_numbers(numbers)):
        assert read_numbers(name, written) == numbers
    for ill in ({}, None, {"base64": "AQ"}, ["x"]):
        with pytest.raises((LookupError, TypeError, ValueError)):
            read_numbers(name, ill)


def test_a_side_array_says_where_it_begins():
    """Items of one shape need no offsets."""
    written = encode_side_array(SideArray(3, "<u2", (2, 1, 2), bytes(range(8))))

    assert (list(written), written["start"]) == (["start", "array"], 3)
    assert read(written["array"]).tolist() == [[[256, 770]], [[1284, 1798]]]


def test_a_side_array_of_lists_says_where_each_lies():
    """One offset more than there are positions."""
    written = encode_side_array(SideArray(0, "|u1", (3,), b"abc", array("I", [0, 2, 2, 3])))

    assert read(written["offsets"]).tolist() == [0, 2, 2, 3]
    assert read(written["array"]).tobytes() == b"abc"


def test_the_old_form_is_base85_with_a_shape():
    """As prime-rl read routed experts."""
    written = encode_old_form(SideArray(0, "<u2", (2, 1, 2), bytes(range(8))))

    assert base64.b85decode(str(written["data"])) == bytes(range(8))
    assert (written["dtype"], written["shape"], written["start"]) == ("uint16", [2, 1, 2], 0)


def test_the_file_that_an_engine_encoded_is_read():
    """Seven positions of two layers with two experts each, by vLLM 0.32's own encoder."""
    sample = json.loads((GOLDEN / "side_arrays" / "routed_experts.json").read_text())
    dtype, shape, data = read_npy(base64.b64decode(sample["base64_npy"]))

    assert (dtype, list(shape)) == ("|u1", sample["shape"])
    assert np.frombuffer(data, dtype).reshape(shape).tolist() == sample["values"]


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("dtype", ["|u1", "<u2", "<i4", "<u4"])
@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 3, 1), (4,)])
def test_what_numpy_writes_is_read_back(shape, dtype, version):
    """Types and versions that there are."""
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)

    assert read_npy(npy(values, version)) == (dtype, shape, values.tobytes())


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (b"", "no .npy"),
        (b"\x93NUMPY\1\0", "no .npy"),
        (npy(np.zeros(2, "u1")).replace(b"NUMPY", b"NUMPX"), "no .npy"),
        (npy(np.zeros(2, [("expert", "u1")])), "no .npy"),
        (npy(np.zeros(2, "f4")), "it holds <f4"),
        (npy(np.zeros(2, ">u2")), "it holds >u2"),
        (npy(np.asfortranarray(np.zeros((2, 3), "u1"))), "Fortran"),
        (npy(np.zeros(2, "u1"))[:-1], "1 bytes"),
        (npy(np.zeros(2, "u1")) + b"\0", "3 bytes"),
    ],
)
def test_what_is_no_array_of_whole_numbers_is_refused(written, why):
    """The error says what it is instead."""
    with pytest.raises(ValueError, match=why):
        read_npy(written)
