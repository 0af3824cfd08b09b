"""Which replayed messages are ours, and which are rewrites."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.canon import (
    DIFFERENCES,
    accepted_differences,
    canonical_json,
    gist,
    identity,
    root_of,
    same_arguments,
    split_system,
)
from gateway.core.types import Message, ToolCall, TurnRequest

CALL = ToolCall("call_1", "get_weather", '{ "unit" : "h\\u00e9" ,  "city" : "Zürich" }')
CALLS = Message("assistant", "\n\n  Let me run it.  \n", reasoning="  Think.\n\nAct. ", tool_calls=(CALL,))
TEXT = Message("assistant", "All done. ", reasoning="Easy.")
ALL_IGNORED = {"reasoning_ignored", "calls_ignored"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=10,
)


def call(**changes):
    values = {"id": CALL.id, "name": CALL.name, "arguments": CALL.arguments, **changes}
    return (ToolCall(**values),)


def like(message, **changes):
    values = {"content": message.content, "reasoning": message.reasoning, "tool_calls": message.tool_calls, **changes}
    return Message("assistant", **values)


@pytest.mark.parametrize(
    ("recorded", "replayed", "kinds"),
    [
        (CALLS, CALLS, set()),
        (Message("assistant", "x"), Message("assistant", "x"), set()),
        (CALLS, like(CALLS, content="Let me run it."), {"content_whitespace"}),
        (CALLS, like(CALLS, content="\n\n\n  Let me run it.  \n"), {"content_whitespace"}),
        (CALLS, like(CALLS, content=""), {"content_dropped"}),
        (CALLS, like(CALLS, reasoning=None), {"reasoning_dropped"}),
        (CALLS, like(CALLS, reasoning=""), {"reasoning_dropped"}),
        (CALLS, like(CALLS, reasoning="Think.\n\nAct."), {"reasoning_whitespace"}),
        (CALLS, like(CALLS, tool_calls=call(arguments='{"unit":"hé","city":"Zürich"}')), {"arguments_reserialised"}),
        (CALLS, like(CALLS, tool_calls=call(arguments='{"city":"Zürich","unit":"hé"}')), {"arguments_reserialised"}),
        (CALLS, like(CALLS, tool_calls=call(id="")), {"tool_call_id_missing"}),
        (Message("assistant", "x"), Message("assistant", "x", reasoning="made up"), {"reasoning_added"}),
        (TEXT, like(TEXT, content="All done.", reasoning=None), {"content_whitespace", "reasoning_dropped"}),
    ],
)
def test_what_real_clients_do_to_our_answer_is_accepted_and_named(recorded, replayed, kinds):
    """The measured rewrites of notes on clients, by kind."""
    assert kinds == set(accepted_differences(recorded, replayed) or ())
    assert accepted_differences(recorded, replayed) is not None
    assert kinds <= DIFFERENCES.keys()


@pytest.mark.parametrize(
    ("recorded", "replayed"),
    [
        (TEXT, like(TEXT, content="All done, boss.")),
        (TEXT, like(TEXT, content="")),
        (TEXT, like(TEXT, reasoning="Hard.")),
        (TEXT, like(TEXT, tool_calls=(CALL,))),
        (CALLS, like(CALLS, tool_calls=())),
        (CALLS, like(CALLS, tool_calls=call(id="call_2"))),
        (CALLS, like(CALLS, tool_calls=call(name="get_time"))),
        (CALLS, like(CALLS, tool_calls=call(arguments='{"unit":"K","city":"Zürich"}'))),
        (CALLS, like(CALLS, content="", tool_calls=call(id=""))),
        (CALLS, like(CALLS, content="Let me not run it.")),
    ],
)
def test_a_true_rewrite_never_matches(recorded, replayed):
    """Other words, other calls, other thoughts: another message."""
    assert accepted_differences(recorded, replayed) is None


@pytest.mark.parametrize(
    ("policy", "replayed", "kinds"),
    [
        ("strict", CALLS, set()),
        ("strict", like(CALLS, content="Let me run it."), None),
        ("strict", like(CALLS, reasoning=None), None),
        ("strict", like(CALLS, tool_calls=call(arguments='{"unit":"hé","city":"Zürich"}')), None),
        ("role_content", CALLS, set()),
        ("role_content", like(CALLS, content="Let me run it."), {"content_whitespace"}),
        ("role_content", like(CALLS, reasoning="Other."), {"reasoning_ignored"}),
        ("role_content", like(CALLS, tool_calls=()), {"calls_ignored"}),
        ("role_content", like(CALLS, tool_calls=call(arguments="{}"), reasoning="Other."), ALL_IGNORED),
        (
            "role_content",
            like(CALLS, tool_calls=call(id=""), reasoning=None),
            {"tool_call_id_missing", "reasoning_dropped"},
        ),
        ("role_content", like(CALLS, content=""), None),
    ],
)
def test_a_policy_may_accept_less_or_more(policy, replayed, kinds):
    """Nothing but the same words; or the text alone, by the word of whoever chose it."""
    accepted = accepted_differences(CALLS, replayed, policy)
    assert kinds == (None if accepted is None else set(accepted))
    assert (kinds or set()) <= DIFFERENCES.keys()


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ("{}", "{}", True),
        ("", "{}", True),
        ('{"a":1}', '{"a": 1.0}', True),
        ('{"a":1}', '{"a":true}', False),
        ('{"a":0}', '{"a":false}', False),
        ('{"a":1}', '{"a":"1"}', False),
        ('{"a":null}', "{}", False),
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('{"a":{"b":1,"c":2}}', '{"a":{"c":2,"b":1}}', True),
        ('{"a":1,"a":2}', '{"a":2}', False),
        ('{"a":1,"a":2}', '{"a":1,"a":2}', True),
        ('{"a":NaN}', '{"a": NaN}', False),
        ('{"a":1e999}', '{"a": 1e999}', False),
        ("not json", "not  json", False),
        ("not json", "not json", True),
        ("[" * 100_000, "[" * 100_000 + " ", False),
        ('{"a":"\\u00e9"}', '{"a":"é"}', True),
    ],
)
def test_arguments_are_compared_as_type_tagged_json(ours, theirs, same):
    """``1`` is ``1.0`` and is not ``true``; what is not plain JSON is compared as it stands."""
    assert same is same_arguments(ours, theirs)


@given(JSON)
def test_reserialising_json_never_changes_its_canonical_form(value):
    """Whatever a client's JSON writer does, the value is the same."""
    compact = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    spread = json.dumps(value, indent=3, sort_keys=True)

    assert canonical_json(json.loads(compact)) == canonical_json(json.loads(spread))


def test_the_gist_of_an_answer_survives_what_clients_do_to_it():
    """White space, reasoning, ids and the spelling of arguments may differ; what they say may not."""
    respelt = call(id="call_9", arguments='{"city":"Zürich","unit":"hé"}')
    assert gist(CALLS) == gist(like(CALLS, content="Let me run it.", reasoning=None, tool_calls=respelt))
    assert gist(CALLS) != gist(like(CALLS, tool_calls=call(arguments="{}")))
    assert gist(CALLS) != gist(TEXT)


@pytest.mark.parametrize(
    "other",
    [
        Message("user", "b"),
        Message("tool", "a"),
        Message("user", "a", tool_call_id="x"),
        Message("assistant", "a"),
        Message("assistant", "a", reasoning="x"),
        Message("assistant", "a", tool_calls=call(id="1")),
        Message("assistant", "a", tool_calls=call(id="2")),
    ],
)
def test_messages_are_told_apart_by_all_that_they_say(other):
    """A name is not said: clients add and drop it at will."""
    assert identity(other) != identity(Message("user", "a"))
    assert identity(other) == identity(replace(other, name="n"))


def test_a_root_is_what_stands_above_the_messages():
    """Tools, leading system messages, model and template arguments each make another root; messages do not."""
    system = Message("system", "Be brief.")
    base = TurnRequest(
        (system, Message("user", "a")), model="m", tools=({"type": "function"},), template_kwargs={"x": 1}
    )
    same = TurnRequest(
        (system, Message("user", "b")), model="m", tools=({"type": "function"},), template_kwargs={"x": 1.0}
    )
    others = [
        TurnRequest(base.messages, model="n", tools=base.tools, template_kwargs=base.template_kwargs),
        TurnRequest(base.messages, tools=base.tools, template_kwargs=base.template_kwargs),
        TurnRequest(base.messages, model="m", template_kwargs=base.template_kwargs),
        TurnRequest(base.messages, model="m", tools=base.tools),
        TurnRequest(base.messages[1:], model="m", tools=base.tools, template_kwargs=base.template_kwargs),
    ]

    assert root_of(base) == root_of(same)
    assert len(others) + 1 == len({root_of(request) for request in [base, *others]})


def test_a_root_keeps_what_was_sent_and_does_not_compare_it():
    """Numbers as they were spelt, keys in their order, names of system messages."""
    one = root_of(TurnRequest((Message("system", "s", name="n"),), tools=({"b": 1.0, "a": 1e22},)))
    other = root_of(TurnRequest((Message("system", "s"),), tools=({"a": 10**22, "b": 1},)))

    assert one == other
    assert hash(one) == hash(other)
    assert one.sent == '{"tools": [{"b": 1.0, "a": 1e+22}], "system": [{"content": "s", "name": "n"}]}'


def test_only_leading_system_messages_belong_to_the_root():
    """One in the middle is a message like any other."""
    system, ask = Message("system", "s"), Message("user", "u")

    assert ([system], [ask, system]) == split_system([system, ask, system])
    assert ([system], []) == split_system([system])
