"""Text as its ids come: the same as of all ids at once, whatever the pieces."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.render.decoder import Decoder
from tests.render.vocabularies import RANDOM, Counted, demo, ids_of, llama_like, pieces_of

pytestmark = pytest.mark.process  # much work: beside the gate


@pytest.fixture(params=["qwen", "demo", "llama"])
def tokenizer(request):
    """Of every kind."""
    kinds = {"demo": demo, "llama": llama_like}
    return kinds[request.param]() if request.param in kinds else request.getfixturevalue("qwen")


def halves(tokenizer, nth=1):
    """The id of one byte of a character, a continuation byte unless said otherwise."""
    vocabulary = tokenizer.get_vocab()
    return vocabulary["<0x82>"] if "<0x82>" in vocabulary else tokenizer.encode("𓀀", add_special_tokens=False)[nth]


def heard(tokenizer, pieces):
    """What is told of each piece, and at the end."""
    decoder = Decoder(tokenizer)
    return [*(decoder.feed(piece) for piece in pieces), decoder.finish()]


@pytest.mark.parametrize("kind", [demo, llama_like])
@settings(max_examples=50)
@given(data=st.data(), random=RANDOM)
def test_pieces_join_to_the_text_of_all_ids(kind, data, random):
    """Characters over several ids, bytes that are none, special tokens, ids that do not exist."""
    tokenizer = kind()
    ids = data.draw(ids_of(tokenizer))
    assert "".join(heard(tokenizer, pieces_of(ids, random))) == tokenizer.decode(ids)


@settings(max_examples=50)
@given(data=st.data(), random=RANDOM)
def test_pieces_join_to_the_text_of_all_ids_with_a_real_tokenizer(qwen, data, random):
    """Its tokens may end one character and begin the next."""
    ids = data.draw(ids_of(qwen))
    assert "".join(heard(qwen, pieces_of(ids, random))) == qwen.decode(ids)


@settings(max_examples=50)
@given(data=st.data())
def test_each_id_says_its_part(data):
    """One by one, with those that are held at the end; texts join, and what is not torn is whole."""
    tokenizer = llama_like() if data.draw(st.booleans()) else demo()
    ids = data.draw(ids_of(tokenizer))
    decoder = Decoder(tokenizer)
    said = [one for token_id in ids for one in decoder.step(token_id)]
    held = decoder.held()
    rest = decoder.finish()

    assert len(said) + len(held) == len(ids)
    assert not held or rest == "".join(one.text for one in held)
    assert "".join(one.text for one in said) + rest == tokenizer.decode(ids)
    if "\ufffd" not in tokenizer.decode(ids):
        text = ""
        for nth, one in enumerate([*said, *held], 1):
            text += one.text
            assert one.torn or text == tokenizer.decode(ids[:nth])


def test_a_copy_goes_on_by_itself(tokenizer):
    """What one of them is fed does not reach the other."""
    first, *others = tokenizer.encode("𓀀 the", add_special_tokens=False)
    decoder = Decoder(tokenizer)
    told = decoder.feed([first])
    other = decoder.copy()

    assert other.feed(others) + other.finish() == tokenizer.decode([first, *others])[len(told) :]
    assert decoder.feed(others) + decoder.finish() == tokenizer.decode([first, *others])[len(told) :]


def test_text_is_told_as_soon_as_it_is_certain(qwen):
    """A character with its last byte, and everything before it at once."""
    assert [*map(len, heard(qwen, [[token_id] for token_id in qwen.encode("a𓀀 b")]))] == [1, 0, 0, 1, 2, 0]


def test_a_run_of_bytes_is_told_when_it_has_ended():
    """Its last byte may make all of it no text."""
    tokenizer = llama_like()
    vocabulary = tokenizer.get_vocab()
    euro = [vocabulary[f"<0x{byte:02X}>"] for byte in "€".encode()]

    assert heard(tokenizer, [[vocabulary["a"], *euro], [vocabulary["b"]]]) == ["a", "€b", ""]
    assert heard(tokenizer, [euro, euro[:1], [vocabulary["b"]]]) == ["", "", "\ufffd" * 4 + "b", ""]


@pytest.mark.parametrize("what", ["text", "halves", "unknown", "characters", "bytes"])
@pytest.mark.parametrize("size", [1, 7])
def test_the_cost_of_an_id_does_not_grow(tokenizer, what, size):
    """Also where all ids are single bytes of no character, or do not exist."""
    counted = Counted(tokenizer)
    some = {
        "text": tokenizer.encode("the 𓀀 ab温 ", add_special_tokens=False),
        "halves": [halves(tokenizer)],
        "unknown": [10**6],
        "characters": tokenizer.encode("𓀀", add_special_tokens=False)[-4:],
        "bytes": Random(0).choices(range(260), k=2000),
    }[what]
    ids = (some * 2000)[:2000]
    pieces = [ids[at : at + size] for at in range(0, len(ids), size)]

    assert "".join(heard(counted, pieces)) == tokenizer.decode(ids)
    assert counted.decoded < 40 * len(ids)
