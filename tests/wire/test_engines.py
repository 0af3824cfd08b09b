"""Engines as JSON."""

import orjson
import pytest

from gateway.core.types import JsonObject
from gateway.errors import BadRequest
from gateway.wire.engine_facts import MOST_RANKS
from gateway.wire.engines import (
    EngineAsked,
    EngineState,
    RankState,
    decode_engine,
    decode_url,
    encode_engine,
    encode_engines,
    encode_models,
    encode_removed,
)

STATE = EngineState(
    "http://e:1",
    answers=True,
    trouble=None,
    version="0.32",
    models=["base", "lora"],
    window=4096,
    logprobs="raw",
    ranks=[RankState(0, "up", 0, False, 1, 2, 3, 400, 5000, 6, 7, 0.5)],  # in the order of its fields
)


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ({"url": "http://e:1"}, EngineAsked("http://e:1", None, None)),
        ({"url": "https://e/base/#dp=8", "draining": None}, EngineAsked("https://e/base/#dp=8", None, None)),
        ({"url": "http://e:1", "draining": True, "rank": 3}, EngineAsked("http://e:1", True, 3)),
        ({"url": "http://[::1]:65535"}, EngineAsked("http://[::1]:65535", None, None)),
        ({"url": f"http://e/a%25b#dp={MOST_RANKS}"}, EngineAsked(f"http://e/a%25b#dp={MOST_RANKS}", None, None)),
        ({"url": "http://e:1", "draining": False}, EngineAsked("http://e:1", False, None)),
    ],
)
def test_an_operator_says_what_is_to_become_of_an_engine(body: JsonObject, asked: EngineAsked) -> None:
    """It is to be there, or to be drained or not, as a whole or a rank of it."""
    assert decode_engine(orjson.dumps(body)) == asked


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "url"),
        ({"url": ""}, "url"),
        ({"url": "e:1"}, "url"),
        ({"url": "ftp://e"}, "url"),
        ({"url": "http://"}, "url"),
        ({"url": "http://key@e"}, "url"),
        ({"url": "http://e?x=1"}, "url"),
        ({"url": "http://e#dp=0"}, "url"),
        ({"url": f"http://e#dp={MOST_RANKS + 1}"}, "url"),
        ({"url": "http://e#dp=" + "9" * 1000}, "url"),
        ({"url": "http://e#dp="}, "url"),
        ({"url": "http://e#dp=2#dp=2"}, "url"),
        ({"url": "http://e\n"}, "url"),
        ({"url": "http://e:0"}, "url"),
        ({"url": "http://e:65536"}, "url"),
        ({"url": "http://e:"}, "url"),
        ({"url": "http://[e]"}, "url"),
        ({"url": "http://[::::]"}, "url"),
        ({"url": "http://."}, "url"),
        ({"url": "http://e f"}, "url"),
        ({"url": "http://e/" + "x" * 3000}, "url"),
        ({"url": 7}, "url"),
        ({"url": "http://e", "draining": "yes"}, "draining"),
        ({"url": "http://e", "draining": True, "rank": -1}, "rank"),
        ({"url": "http://e", "rank": 1}, "rank"),
        ({"url": "http://e", "ranks": 2}, "ranks"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(body: JsonObject, param: str) -> None:
    """Before anything is done."""
    with pytest.raises(BadRequest) as refused:
        decode_engine(orjson.dumps(body))
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("more", "param"),
    [({"draining": True}, "draining"), ({"draining": False, "rank": 1}, "rank"), ({"rank": 1}, "rank")],
)
def test_an_engine_is_removed_as_a_whole(more: JsonObject, param: str) -> None:
    """Who says more than its URL means something else."""
    assert decode_url(orjson.dumps({"url": "http://e"})) == "http://e"
    with pytest.raises(BadRequest) as refused:
        decode_url(orjson.dumps({"url": "http://e", **more}))
    assert refused.value.param == param


def test_an_empty_body_names_no_engine() -> None:
    """It is as an empty object."""
    with pytest.raises(BadRequest, match="url must be like"):
        decode_engine(b"")


def test_engines_are_shown_with_their_ranks() -> None:
    """Alone, or all of them on one page."""
    one = orjson.loads(encode_engine(STATE))
    assert one["models"] == ["base", "lora"]
    assert one["ranks"] == [
        {
            "rank": 0,
            "health": "up",
            "failures": 0,
            "draining": False,
            "in_flight": 1,
            "waiting": 2,
            "sessions": 3,
            "resident_tokens": 400,
            "capacity_tokens": 5000,
            "running": 6,
            "queued": 7,
            "kv_usage": 0.5,
        }
    ]
    assert orjson.loads(encode_engines([STATE])) == {"data": [one], "next": None}
    assert orjson.loads(encode_removed("http://e:1", 3)) == {"url": "http://e:1", "removed": True, "interrupted": 3}


def test_the_models_of_several_engines_are_one_list() -> None:
    """Each id once; what is no list of models adds nothing."""
    first = {"data": [{"id": "a", "n": 1}, {"id": "b"}]}
    second = {"data": [{"id": "c"}, {"id": "a", "n": 2}, {"id": 7}, "?"]}
    bodies = [*map(orjson.dumps, (first, second, [], {"data": None})), b"?"]
    assert orjson.loads(encode_models(bodies)) == {
        "object": "list",
        "data": [{"id": "a", "n": 1}, {"id": "b"}, {"id": "c"}],
    }
