"""Where a stop string ends a completion: exact across tokens and within them."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.types import Sampling
from gateway.render.stops import StopMatch, StopWatch
from tests.render.vocabularies import RANDOM, Counted, demo, ids_of, llama_like, pieces_of


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
    watch = StopWatch(tokenizer, sampling, ())
    shown = watch.feed(range(len(pieces))) + watch.finish()
    return watch.stop and (watch.stop.kept, tokenizer.decode(shown), watch.stop.cut)


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


def naive(tokenizer, ids, sampling, stop_ids):
    """The ids to show and the stop, from the texts of all beginnings of a completion."""
    said = ids[:-1] if ids and ids[-1] in stop_ids else ids
    texts = [tokenizer.decode(said[:count]) for count in range(len(said) + 1)]
    found = []
    for stop in sampling.stop:
        for end in range(len(stop), len(texts[-1]) + 1):
            if texts[-1][:end].endswith(stop):
                kept = next(count for count, text in enumerate(texts) if text.startswith(texts[-1][:end]))
                found += [(end, kept, stop)] if kept > (sampling.min_tokens or 0) else []
    if not found:
        return ids, None
    end, kept, stop = min(found, key=lambda match: match[0])
    visible = texts[-1][: end if sampling.include_stop_str_in_output else end - len(stop)]
    whole = max(count for count in range(kept + 1) if visible.startswith(texts[count]))
    tail = visible[len(texts[whole]) :]
    shown = said[:whole] + (tokenizer.encode(tail, add_special_tokens=False) if tail else [])
    return shown, StopMatch(kept, cut=texts[kept] != texts[-1][:end])


def watched(tokenizer, pieces, sampling, stop_ids=()):
    """The ids that are shown of each piece, and at the end; the stop."""
    watch = StopWatch(tokenizer, sampling, stop_ids)
    shown = [*(watch.feed(piece) for piece in pieces), watch.finish()]
    return shown, watch.stop


def stops_of(text):
    """Stop strings that are somewhere in a text, or nearly."""
    words = [text[at : at + size] for at in range(len(text)) for size in range(1, 9)]
    words = [word for word in words if "\ufffd" not in word] or ["a"]
    near = st.sampled_from(words).map(lambda word: word + "zz")
    return st.lists(st.one_of(st.sampled_from(words), near, st.sampled_from(["a", "zz"])), max_size=4).map(tuple)


def agrees_with_naive(tokenizer, data, random):
    """A random completion with random stops in random pieces."""
    ids = data.draw(ids_of(tokenizer))
    stop_ids = tokenizer.all_special_ids[:2]
    sampling = Sampling(
        stop=data.draw(stops_of(tokenizer.decode(ids))),
        include_stop_str_in_output=data.draw(st.sampled_from([None, False, True])),
        min_tokens=data.draw(st.sampled_from([None, 0, 3, 10])),
    )
    shown, stop = watched(tokenizer, pieces_of(ids, random, data.draw(st.sampled_from([1, 3, 60]))), sampling, stop_ids)
    assert ([*chain(*shown)], stop) == naive(tokenizer, ids, sampling, stop_ids)


@pytest.mark.parametrize("kind", [demo, llama_like])
@given(data=st.data(), random=RANDOM)
def test_a_completion_in_pieces_is_cut_where_the_whole_one_is(kind, data, random):
    """Characters over several ids, bytes that are none, special tokens, stops that overlap."""
    agrees_with_naive(kind(), data, random)


@given(data=st.data(), random=RANDOM)
def test_a_completion_in_pieces_is_cut_where_the_whole_one_is_with_a_real_tokenizer(qwen, data, random):
    """Its tokens may end one character and begin the next."""
    agrees_with_naive(qwen, data, random)


def shown_of_each(pieces, *stops, **options):
    """The ids that are shown after each piece, one id each, and at the end."""
    tokenizer = Pieces(*(piece.encode() if isinstance(piece, str) else piece for piece in pieces))
    sampling = Sampling(stop=stops, **options)
    return watched(tokenizer, [[token_id] for token_id in range(len(pieces))], sampling)[0]


@pytest.mark.parametrize(
    ("pieces", "stops", "shown"),
    [
        (["a", "b", "c"], ("xyz",), [[0], [1], [2], []]),
        (["a", "x", "y", "b"], ("xyz",), [[0], [], [], [1, 2, 3], []]),
        (["a", "x", "x", "y", "xy"], ("xyz",), [[0], [], [1], [], [2, 3], [4]]),
        (["ax", "xx", "b"], ("xxy",), [[], [0], [1, 2], []]),
        (["ab", "ab", "a", "c"], ("abac",), [[], [0], [], [], []]),
        ([b"a\xe2", b"\x82", b"\xac", "b"], ("x",), [[], [], [0, 1, 2], [3], []]),
        ([b"\x82", b"\x82", "b"], ("x",), [[], [0], [1, 2], []]),
        (["x", b"\xe2"], ("xy",), [[], [], [0, 1]]),
    ],
)
def test_ids_are_held_no_longer_than_needed(pieces, stops, shown):
    """What may be the beginning of a stop, and half of a character."""
    assert shown_of_each(pieces, *stops) == shown


def test_a_stop_that_is_shown_holds_nothing_back():
    """It is in the text either way."""
    assert shown_of_each(["a", "x", "y", "b"], "xy", include_stop_str_in_output=True) == [[0], [1], [2], [], []]


def test_without_stop_strings_ids_pass_as_they_are():
    """Nothing is decoded; a stop id waits for nothing."""
    watch = StopWatch(Pieces(), Sampling(), [7])

    assert [watch.feed([5, 7]), watch.feed([10**6]), watch.finish(), watch.stop] == [[5, 7], [10**6], [], None]


def test_a_stop_id_is_text_unless_it_is_the_last():
    """A model may say it in between; the last one ends the turn and no stop string can lie in it."""
    pieces, sampling = ["a", "END", "b"], Sampling(stop=("END",))
    tokenizer = Pieces(*(piece.encode() for piece in pieces))

    assert watched(tokenizer, [[0], [1]], sampling, [1]) == ([[0], [], [1]], None)
    assert watched(tokenizer, [[0], [1], [2]], sampling, [1]) == ([[0], [], [], []], StopMatch(2, cut=False))


def test_ids_behind_the_stop_are_ignored():
    """Engines send what they sampled beyond it."""
    tokenizer = Pieces(b"a", b"b", *[b"c"] * 100)

    assert watched(tokenizer, [[0], [1, 2], range(3, 100), []], Sampling(stop=("b",))) == (
        [[0], [], [], [], []],
        StopMatch(2, cut=False),
    )


def test_what_a_torn_character_reads_as_can_be_a_stop():
    """It is text like any other, once nothing else can come of it."""
    assert find(["a", b"\xe2"], "\ufffd") == (2, "a", False)


@pytest.mark.parametrize("what", ["text", "beginnings", "bytes"])
@pytest.mark.parametrize("size", [1, 50, 2000])
@pytest.mark.parametrize("kind", [demo, llama_like])
def test_the_cost_of_an_id_does_not_grow(kind, what, size):
    """Also where each id may begin a long stop, or none is a character."""
    tokenizer = Counted(kind())
    vocabulary = tokenizer.get_vocab()
    some = {
        "text": tokenizer.encode("the cat\nsat € END", add_special_tokens=False),
        "beginnings": [vocabulary["a"]],
        "bytes": [vocabulary.get("<0x82>", vocabulary.get("Ĥ"))],
    }[what]
    ids = (some * 2000)[:2000]
    stops = ("a" * 500 + "b", "\n\n\n", "END of", "zzz")

    shown, stop = watched(tokenizer, [ids[at : at + size] for at in range(0, 2000, size)], Sampling(stop=stops))

    assert ([*chain(*shown)], stop) == (ids, None)
    assert tokenizer.decoded < 50 * len(ids)
