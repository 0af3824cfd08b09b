"""What a harness may say about a session, and what it is shown."""

import orjson
import pytest

from gateway.core.budget import Budget, Spent
from gateway.core.terms import Terms
from gateway.core.types import Sampling
from gateway.errors import BadRequest
from gateway.wire import sessions as wire

SAMPLING = {"temperature": 0.5, "max_completion_tokens": 9, "stop": "END", "ignore_eos": False, "vllm_xargs": {"a": 1}}


def body(**fields: object) -> bytes:
    """A body."""
    return orjson.dumps(fields)


def test_a_session_may_be_asked_for_without_a_word():
    """Or with words that say nothing."""
    for asked in (b"", b"{}", body(session_id=None, group_id=None, metadata={}, budget={}, sampling_params=None)):
        assert wire.decode_creation(asked) == wire.Creation(None, Terms())


def test_a_session_is_what_was_asked_for():
    """Each word in its place; sampling as a chat request has it."""
    asked = body(
        session_id="a/b",
        group_id="g",
        rollout_id="r",
        sampling="locked",
        client_seed="keep",
        metadata={"task": {"id": 7}},
        sampling_params=SAMPLING,
        forced_sampling_params={"max_tokens": 5},
        budget={"max_context_tokens": 1, "max_completion_tokens": 2, "max_turns": 3},
    )

    terms = Terms(
        group_id="g",
        metadata={"task": {"id": 7}},
        sampling=Sampling(temperature=0.5, max_tokens=9, stop=("END",), ignore_eos=False, extra_args={"a": 1}),
        forced=Sampling(max_tokens=5),
        budget=Budget(1, 2, 3),
        rollout_id="r",
        sampling_rule="locked",
        client_seed="keep",
    )
    assert wire.decode_creation(asked) == wire.Creation("a/b", terms)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"session_id": ""}, "session_id"),
        ({"session_id": 1}, "session_id"),
        ({"group_id": ""}, "group_id"),
        ({"rollout_id": 7}, "rollout_id"),
        ({"sampling": "free"}, "sampling"),
        ({"sampling": {}}, "sampling"),
        ({"client_seed": True}, "client_seed"),
        ({"group_id": "x" * 513}, "group_id"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"x": "x" * 65536}}, "metadata"),
        ({"sampling_params": "x"}, "sampling_params"),
        ({"sampling_params": {"temperature": -1}}, "sampling_params.temperature"),
        ({"sampling_params": {"temprature": 1}}, "sampling_params.temprature"),
        ({"sampling_params": {"extra_args": {}}}, "sampling_params.extra_args"),
        ({"sampling_params": {"n": 2}}, "sampling_params.n"),
        ({"forced_sampling_params": {"max_tokens": 0}}, "forced_sampling_params.max_tokens"),
        ({"forced_sampling_params": {"logit_bias": {"x": 1}}}, "forced_sampling_params.logit_bias"),
        ({"budget": 3}, "budget"),
        ({"budget": {"max_turn": 1}}, "budget.max_turn"),
        ({"grop_id": "g"}, "grop_id"),
        ({"reward": 1}, "reward"),
        ({"budget": {"max_turns": 0}}, "budget.max_turns"),
        ({"budget": {"max_turns": 1.5}}, "budget.max_turns"),
        ({"budget": {"max_context_tokens": "1"}}, "budget.max_context_tokens"),
    ],
)
def test_an_ill_word_is_refused_by_name(fields, param):
    """A misspelt parameter too: it would be missed in every turn."""
    with pytest.raises(BadRequest) as refused:
        wire.decode_creation(body(**fields))

    assert refused.value.param == param
    assert refused.value.message.startswith(param)


@pytest.mark.parametrize("text", [b"[]", b"{", b"null"])
def test_what_is_no_object_is_refused(text):
    """As everywhere."""
    with pytest.raises(BadRequest):
        wire.decode_creation(text)
    with pytest.raises(BadRequest):
        wire.decode_finish(text, {})


def test_all_that_is_not_known_is_named_with_what_is():
    """So that one look mends it."""
    for decode in (wire.decode_creation, lambda text: wire.decode_finish(text, {})):
        with pytest.raises(BadRequest, match=r"^rewrad, metdata is not known here: these are .*metadata") as refused:
            decode(body(rewrad=1, metadata={"free": 1}, metdata={}))
        assert refused.value.param == "rewrad"
    with pytest.raises(BadRequest) as refused:
        wire.decode_finish(body(**{f"{at}{'x' * 999}": 1 for at in range(99)}), {})
    assert len(refused.value.message) < 1000


@pytest.mark.parametrize("reward", [0, 1, -0.5, 1e300])
def test_a_reward_is_any_number(reward):
    """Zero is one, silence is none."""
    assert wire.decode_finish(body(reward=reward), {}).reward == reward
    assert wire.decode_finish(b"", {}).reward is None
    assert wire.decode_finish(body(reward=None), {}).reward is None


@pytest.mark.parametrize("reward", [b"true", b'"1"', b"NaN", b"1e999", b"[1]"])
def test_what_is_no_number_is_no_reward(reward):
    """Least of all what is not a number."""
    with pytest.raises(BadRequest):
        wire.decode_finish(b'{"reward": ' + reward + b"}", {})


def test_metadata_are_merged_and_stay_bounded():
    """Key by key; finishing again and again does not pile them up."""
    merged = wire.decode_finish(body(metadata={"b": 3, "c": 4}), {"a": 1, "b": 2}).metadata
    assert merged == {"a": 1, "b": 3, "c": 4}

    with pytest.raises(BadRequest) as refused:
        wire.decode_finish(body(metadata={"b": "x" * 40000}), {"a": "x" * 40000})
    assert refused.value.param == "metadata"


def test_a_page_is_what_the_query_says():
    """Or the first hundred."""
    assert wire.decode_page({}) == wire.Page(0, 100, None)
    assert wire.decode_page({"cursor": "7", "limit": "1000", "group_id": "g"}) == wire.Page(7, 1000, "g")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("cursor", value) for value in ("", "x", "-1", "1.0", "1" * 16, "²")),
        *(("limit", value) for value in ("", "0", "1001", "99999", "-1", "x", "1e2")),
    ],
)
def test_an_ill_query_is_refused_by_name(name, value):
    """Before anything is looked at."""
    with pytest.raises(BadRequest, match=name) as refused:
        wire.decode_page({name: value})

    assert refused.value.param == name


def state(**changed):
    """A session in its second turn."""
    terms = Terms(
        group_id="g",
        rollout_id="r",
        metadata={"a": 1},
        sampling=Sampling(stop=("END",), extra_args={"x": 1}),
        forced=Sampling(seed=0),
        budget=Budget(max_turns=3),
        sampling_rule="locked",
        client_seed="keep",
    )
    spent = Spent(turns=1, aborted_turns=2, prompt_tokens=30, completion_tokens=4)
    fields = {"session_id": "s", "terms": terms, "spent": spent, "turns_in_flight": 1, "finished": False}
    return wire.SessionState(**{**fields, "reward": None, "created_s": 12.34567, **changed})


SHOWN = {
    "session_id": "s",
    "group_id": "g",
    "rollout_id": "r",
    "metadata": {"a": 1},
    "status": "open",
    "reward": None,
    "created_s": 12.346,
    "turns": 1,
    "aborted_turns": 2,
    "turns_in_flight": 1,
    "prompt_tokens": 30,
    "completion_tokens": 4,
    "budget": {"max_context_tokens": None, "max_completion_tokens": None, "max_turns": 3},
    "sampling_params": {"stop": ["END"], "vllm_xargs": {"x": 1}},
    "forced_sampling_params": {"seed": 0},
    "sampling": "locked",
    "client_seed": "keep",
}


def test_a_session_is_shown_as_it_is():
    """By the names that a harness used."""
    assert orjson.loads(wire.encode_session(state())) == SHOWN
    finished = orjson.loads(wire.encode_session(state(finished=True, reward=0.5)))
    assert finished == SHOWN | {"status": "finished", "reward": 0.5}


def test_sessions_are_listed_as_everything_is():
    """With the next page's cursor."""
    assert orjson.loads(wire.encode_sessions([state()], 7)) == {"data": [SHOWN], "next": "7"}
    assert orjson.loads(wire.encode_sessions([], None)) == {"data": [], "next": None}


def test_a_new_session_says_where_it_is_spoken_to():
    """The URL is what an SDK calls base_url."""
    created = orjson.loads(wire.encode_created("s", "http://host/sessions/s/v1"))
    assert created == {"session_id": "s", "base_url": "http://host/sessions/s/v1"}


def test_what_is_safe_elsewhere_is_a_list_of_ids():
    """Anything else would keep sessions that nobody needs."""
    assert wire.decode_ack(body(session_ids=["a", "b/c"])) == ["a", "b/c"]
    for ill in (b"{}", body(session_ids=None), body(session_ids="a"), body(session_ids=[1]), body(ids=[])):
        with pytest.raises(BadRequest):
            wire.decode_ack(ill)


def test_what_became_of_them_is_said_of_each():
    """In three lists, which may be empty."""
    told = {"freed": ["a"], "unknown": [], "open": ["b"]}
    assert orjson.loads(wire.encode_freed(wire.Freed(**told))) == told
