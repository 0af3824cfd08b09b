"""Where a history differs from what was said: found, named, and no more of it than there is."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.types import Message, ToolCall
from gateway.doctor.divergence import divergences, shared

SYSTEM = Message("system", "be brief")
QUESTION = Message("user", "how is Bern?")
CALL = ToolCall("call_1", "weather", '{"city": "Bern"}')
ANSWER = Message("assistant", " Let me look. ", reasoning="hm", tool_calls=(CALL,))
RESULT = Message("tool", "sunny", tool_call_id="call_1")
LAST = Message("assistant", "It is sunny.")
SAID = [SYSTEM, QUESTION, ANSWER, RESULT, LAST]
THANKS = Message("user", "thanks")


def told(sent, said=SAID, **more):
    """The differences as (position, role, change, kinds)."""
    return [(one.position, one.role, one.change, one.kinds) for one in divergences(said, sent, **more)]


def test_what_only_comes_behind_is_no_difference():
    assert told(SAID) == told([*SAID, THANKS]) == []


def test_a_rewrite_of_an_answer_that_is_accepted_is_told_by_its_kinds():
    """In its place, as another message than the one before."""
    stripped = replace(ANSWER, content="Let me look.", reasoning=None)
    (one,) = divergences(SAID, [*SAID[:2], stripped, *SAID[3:], THANKS])

    assert (one.position, one.change) == (2, "accepted")
    assert set(one.kinds) == {"content_whitespace", "reasoning_dropped"}
    assert (one.before, one.after) == (ANSWER, stripped)


def test_text_left_out_beside_calls_is_accepted():
    """Though what clients keep of the message is another."""
    emptied = replace(ANSWER, content="")

    assert told([*SAID[:2], emptied, *SAID[3:]]) == [(2, "assistant", "accepted", ("content_dropped",))]


def test_the_strict_policy_accepts_nothing():
    stripped = replace(ANSWER, content="Let me look.")

    assert told([*SAID[:2], stripped, *SAID[3:]], policy="strict") == [(2, "assistant", "rewritten", ("content",))]


def test_a_rewritten_message_is_told_with_what_differs():
    """Text of a user or a tool, thoughts and calls of an answer, the id that a result answers."""
    for at, other, part in (
        (0, replace(SYSTEM, content="be long"), "content"),
        (1, replace(QUESTION, content="how is Bern? (now)"), "content"),
        (2, replace(ANSWER, reasoning="another"), "reasoning"),
        (2, replace(ANSWER, tool_calls=(replace(CALL, id="call_2"),)), "tool_calls"),
        (3, replace(RESULT, tool_call_id="call_2"), "tool_call_id"),
    ):
        sent = [*SAID[:at], other, *SAID[at + 1 :], THANKS]

        assert told(sent) == [(at, other.role, "rewritten", (part,))]


def test_a_removed_message_is_told_where_it_would_have_stood():
    assert told([*SAID[:2], *SAID[4:], THANKS]) == [(2, "assistant", "removed", ()), (2, "tool", "removed", ())]


def test_a_forgotten_answer_at_the_end_is_removed_and_what_follows_is_new():
    assert told([*SAID[:4], THANKS]) == [(4, "assistant", "removed", ())]


def test_an_inserted_message_is_told_and_one_behind_all_others_is_new():
    reminder = Message("user", "remember")

    assert told([SYSTEM, reminder, *SAID[1:], THANKS]) == [(1, "user", "inserted", ())]


def test_messages_of_one_role_are_paired_in_order_within_what_was_replaced():
    """A result that became a user's message is one removed and one inserted."""
    sent = [SYSTEM, QUESTION, replace(ANSWER, content="Calling", tool_calls=()), Message("user", "sunny"), LAST]

    assert told(sent) == [
        (2, "assistant", "rewritten", ("content", "tool_calls")),
        (3, "tool", "removed", ()),
        (3, "user", "inserted", ()),
    ]


def test_what_is_shared_leaves_out_the_system_s_words():
    assert shared(SAID, [SYSTEM, Message("user", "another task")]) == []
    assert shared(SAID, [SYSTEM, QUESTION, LAST]) == [1, 4]


unlike = st.lists(st.integers(0, 99), unique=True, max_size=12).map(
    lambda numbers: [Message(("user", "assistant", "tool")[number % 3], f"{number}") for number in numbers]
)


@given(unlike, st.data())
def test_whatever_was_removed_is_told_and_nothing_else(said, data):
    """Each message once, where it would have stood; what comes behind stays new."""
    keeps = data.draw(st.lists(st.booleans(), min_size=len(said), max_size=len(said)))
    sent = [message for message, kept in zip(said, keeps, strict=True) if kept]
    found = divergences(said, [*sent, SYSTEM])

    assert [one.before for one in found] == [m for m, kept in zip(said, keeps, strict=True) if not kept]
    assert {one.change for one in found} <= {"removed"}
    assert [one.position for one in found] == [sum(keeps[:at]) for at, kept in enumerate(keeps) if not kept]


@given(unlike, unlike)
def test_a_history_that_goes_on_differs_in_nothing(said, new):
    assert divergences(said, [*said, *new]) == []
