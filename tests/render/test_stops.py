"""Where a stop string ends a completion: exact across tokens and within them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.types import Sampling
from gateway.render.stops import find_stop


class Pieces:
    """A tokenizer whose tokens are given byte strings; what it encodes anew is one byte a token."""

    name_or_path = "pieces"

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    def decode(self, token_ids, *, skip_special_tokens=False):
        data = b"".join(self.pieces[i] if i < 1000 else bytes([i - 1000]) for i in token_ids)
        return data.decode("utf-8", "replace")

    def encode(self, text, *, add_special_tokens=True):
        return [1000 + byte for byte in text.encode()]

    def get_vocab(self):
        return {}


def find(pieces, *stops, include=False, min_tokens=None):
    tokenizer = Pieces(*(piece.encode() if isinstance(piece, str) else piece for piece in pieces))
    sampling = Sampling(stop=stops, include_stop_str_in_output=include, min_tokens=min_tokens)
    match = find_stop(tokenizer, list(range(len(pieces))), sampling)
    return match and (match.kept, tokenizer.decode(match.shown), match.cut)


@pytest.mark.parametrize(
    ("pieces", "stops", "expected"),
    [
        (["a", "b", "c"], (), None),
        (["a", "b", "c"], ("x",), None),
        (["a", "b", "c"], ("b",), (2, "a", False)),
        (["abcdefgh"], ("fg",), (1, "abcde", True)),
        (["ab cd", "e", "f gh"], ("ef",), (3, "ab cd", True)),
        (["a", "STO", "P", "z"], ("STOP",), (3, "a", False)),
        (["a", "b", "c", "d"], ("d", "b"), (2, "a", False)),
        (["xy", "z"], ("y", "xyz"), (1, "x", False)),
        ([b"\xe2\x82", b"\xac!", "b"], ("!",), (2, "€", False)),
        ([b"a\xe2\x82", b"\xac", "b"], ("€",), (2, "a", False)),
        (["stop", "stop"], ("stop",), (1, "", False)),
    ],
)
def test_the_turn_ends_at_the_token_that_completes_the_first_stop(pieces, stops, expected):
    """Ids are kept up to that token; the client sees the text before the stop."""
    assert expected == find(pieces, *stops)


@pytest.mark.parametrize(
    ("pieces", "stop", "expected"), [(["a", "b", "c"], "b", (2, "ab", False)), (["a", "bz", "c"], "b", (2, "ab", True))]
)
def test_an_included_stop_cuts_only_what_follows_it_in_its_token(pieces, stop, expected):
    """Where the token ends with the stop, nothing was cut and the turn can be bridged."""
    assert expected == find(pieces, stop, include=True)


def test_text_within_the_minimum_cannot_complete_a_stop():
    """As in vLLM: the check starts behind `min_tokens`, though a stop may reach back."""
    assert find(["a", "b", "a", "b"], "b", min_tokens=2) == (4, "aba", False)
    assert find(["a", "b", "c"], "bc", min_tokens=2) == (3, "a", False)
    assert find(["x", b"\xf0\x9f", b"\xa4\xa6"], "🤦", min_tokens=2) == (3, "x", False)


@given(
    st.lists(st.sampled_from(["a", "b", "ab", "ba", "é", "€x"]), max_size=12), st.sampled_from(["a", "ab", "bé", "xa"])
)
def test_kept_ids_complete_the_stop_and_shown_text_does_not_hold_it(pieces, stop):
    """Whatever the split into tokens, what is kept and shown depends on the text alone."""
    match = find(pieces, stop)
    text = "".join(pieces)

    assert (match is None) is (stop not in text)
    if match:
        kept, shown, cut = match
        assert stop in "".join(pieces[:kept])
        assert stop not in "".join(pieces[: kept - 1])
        assert shown == text[: text.index(stop)]
        assert cut is not "".join(pieces[:kept]).endswith(stop)
