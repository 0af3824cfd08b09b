"""The forest: where a history attaches, why it does not, and that nothing is ever lost or made up."""

from dataclasses import replace

import pytest

from gateway.core.canon import Difference
from gateway.core.ledger import Known
from gateway.core.matching import Match
from gateway.core.prompt import build_prompt
from gateway.core.reason import Reason
from gateway.core.rope import rope
from gateway.core.turn import Prompt
from gateway.core.types import Answer, Message, Origin, ToolCall, TurnRequest
from tests.core.sampled import HOW
from tests.core.toy import Talk, assistant, tool, user

CALL = ToolCall("call_1", "bash", '{"command": "ls"}')
SYSTEM = Message("system", "Be brief.")


def test_prepare_changes_nothing():
    """Asking is free: whoever stops before commit leaves no trace."""
    talk = Talk()
    talk.take(user("a"))
    before = talk.ledger.turns
    pending = talk.ledger.prepare(TurnRequest((user("x"),), model="m"))
    build_prompt(talk.renderer, pending)

    assert before == talk.ledger.turns
    assert len(talk.ledger.turns) == 1


def test_two_calls_prepared_at_once_become_siblings():
    """No lock: both are answers to the same history."""
    talk = Talk()
    first = talk.take(user("a"))
    left = talk.take(user("a"), first.message, user("b"))
    right = talk.take(user("a"), first.message, user("b"))

    assert left.parent is right.parent is first
    assert [user("a"), first.message, user("b"), right.message] == talk.ledger.history(right)
    assert left.prompt_ids() == right.prompt_ids()


def test_a_request_may_extend_any_turn():
    """Going back to an earlier answer makes a branch from there."""
    talk = Talk()
    first = talk.take(SYSTEM, user("a"))
    second = talk.take(SYSTEM, user("a"), first.message, user("b"))
    talk.take(SYSTEM, user("a"), first.message, user("b"), second.message, user("c"))
    back = talk.take(SYSTEM, user("a"), first.message, user("d"))

    assert (back.parent, back.how) == (first, "bridged")
    assert [first, back] == back.branch()


def test_replayed_differences_are_kept_on_the_turn():
    """What was accepted is on record."""
    talk = Talk()
    first = talk.take(user("a"), answer=assistant("text ", CALL, reasoning="hm"))
    replay = assistant("text", replace(CALL, arguments='{"command":"ls"}'))
    turn = talk.take(user("a"), replay, tool("out"))

    assert turn.parent is first
    assert {"content_whitespace", "reasoning_dropped", "arguments_reserialised"} == turn.differences.keys()
    assert {Difference(1, len(first.completion.ids))} == set(turn.differences.values())


def test_the_recorded_answer_wins_over_the_replayed_one():
    """A full render shows what the model said, not what the client made of it."""
    talk = Talk()
    first = talk.take(user("a"), answer=assistant("text ", reasoning="hm"))
    talk.renderer.declines = True
    talk.take(user("a"), assistant("text"), user("b"))

    assert [user("a"), first.message, user("b")] == talk.renderer.rendered[-1]


def test_among_equal_answers_the_latest_is_extended_and_audited():
    """Nothing tells them apart, and the record says so."""
    talk = Talk()
    talk.take(user("a"), answer=assistant("same"))
    later = talk.take(user("a"), answer=assistant("same"))
    turn = talk.take(user("a"), assistant("same"), user("b"))

    assert turn.parent is later
    assert "ambiguous_sibling" in turn.differences


def test_the_answer_replayed_most_exactly_is_extended():
    """White space tells siblings apart; what the client never saw must not come back."""
    talk = Talk()
    exact = talk.take(user("a"), answer=assistant("yes"))
    talk.take(user("a"), answer=assistant("yes\n"))
    turn = talk.take(user("a"), assistant("yes"), user("b"))

    assert turn.parent is exact
    assert turn.differences == {}


def test_the_latest_of_equal_answers_is_the_one_recorded_last():
    """Also where it hangs below an earlier sibling."""
    talk = Talk()
    first = talk.take(user("a"), answer=assistant("same"))
    talk.take(user("a"), answer=assistant("same"))
    talk.take(user("a"), assistant("same"), user("b"), answer=assistant("next"))
    pending = talk.ledger.prepare(TurnRequest((user("a"), assistant("same"), user("b")), model="m"))
    late = seal(
        replace(pending, match=Match(first.node, first, 2)),
        pending.rendered([1] * 99, Reason.FIRST_TURN),
        first,
        answer=assistant("next"),
    )
    pending.commit(late)
    turn = talk.take(user("a"), assistant("same"), user("b"), assistant("next"), user("c"))

    assert turn.parent is late


def test_equal_tool_calls_do_not_hide_an_edited_message():
    """Agents call the same tool with the same arguments again and again."""
    talk = Talk()
    messages = [user("a")]
    for _ in range(4):
        messages += [talk.take(*messages, answer=assistant("", CALL)).message, tool("out")]
    turn = talk.take(user("edited"), *messages[1:])

    assert turn.reason == "history_edited"


def test_a_foreign_call_of_a_known_tool_is_foreign():
    """Other arguments make it another call."""
    talk = Talk()
    first = talk.take(user("a"), answer=assistant("", CALL))
    foreign = assistant("", replace(CALL, id="theirs", arguments='{"command": "rm"}'))
    turn = talk.take(user("a"), first.message, tool("out"), foreign, tool("out", "theirs"))

    assert turn.reason == "foreign_assistant"


def test_a_lineage_that_changes_every_turn_is_told_from_the_latest_ones():
    """Only a few are asked, however many there are."""
    talk = Talk()
    messages = [user("a")]
    for clock in range(12):
        system = Message("system", f"It is {clock} o'clock.")
        messages += [talk.take(system, *messages).message, user("b")]

    assert talk.ledger.turns[-1].reason == "system_changed"


def test_among_equal_answers_tool_call_ids_decide():
    """Ids are minted per answer, so a replayed one names its turn."""
    talk = Talk()
    earlier = talk.take(user("a"), answer=assistant("", CALL))
    talk.take(user("a"), answer=assistant("", replace(CALL, id="call_2")))
    turn = talk.take(user("a"), assistant("", CALL), tool("out"))

    assert turn.parent is earlier
    assert turn.differences == {}


def test_without_replayed_ids_the_latest_equal_call_is_taken():
    """Position, name and arguments decide where the client lost the ids."""
    talk = Talk()
    talk.take(user("a"), answer=assistant("", CALL))
    later = talk.take(user("a"), answer=assistant("", replace(CALL, id="call_2")))
    turn = talk.take(user("a"), assistant("", replace(CALL, id="")), tool("out", ""))

    assert turn.parent is later
    assert {"tool_call_id_missing", "ambiguous_sibling"} == turn.differences.keys()


def test_the_deepest_match_wins_even_behind_a_foreign_assistant_message():
    """An injected answer is context; the turn sampled after it is extended."""
    talk = Talk()
    talk.take(user("a"), answer=assistant("x"))
    few_shot = talk.take(user("a"), assistant("other"), user("b"), answer=assistant("y"))
    turn = talk.take(user("a"), assistant("other"), user("b"), assistant("y"), user("c"))

    assert (turn.parent, turn.how) == (few_shot, "bridged")


def test_a_foreign_answer_equal_to_ours_does_not_hide_a_deeper_match():
    """All readings of a history are followed at once."""
    talk = Talk()
    deep = talk.take(user("a"), assistant("x"), user("b"), answer=assistant("y"))
    talk.take(user("a"), answer=assistant("x"))
    turn = talk.take(user("a"), assistant("x"), user("b"), assistant("y"), user("c"))

    assert turn.parent is deep


def test_aborted_turns_are_kept_and_never_extended():
    """A partial is evidence, not an answer."""
    talk = Talk()
    aborted = talk.take(user("a"), answer=assistant("part"), status="aborted")
    turn = talk.take(user("a"), assistant("part"), user("b"))

    assert aborted in talk.ledger.turns
    assert turn.parent is None


def history(talk, *texts):
    """A linear session; returns its messages, ending in our last answer."""
    messages = [SYSTEM]
    for text in texts:
        messages.append(user(text))
        messages.append(talk.take(*messages).message)
    return messages


TOOLS = ({"type": "function", "function": {"name": "bash"}},)


def test_how_well_a_history_is_known_does_not_depend_on_what_stands_above_it():
    """The messages up to our last answer, the calls on the way there that came back under our ids, and the lineage."""
    talk = Talk()
    first = talk.take(SYSTEM, user("a"), answer=assistant("", CALL), tools=TOOLS)
    known = [Message("system", "other"), user("a"), first.message, tool("out")]
    other = replace(first.root, tools="other")

    assert (0, 0, False) == talk.ledger.known_turns([user("a")], first.root)
    assert (2, 1, True) == talk.ledger.known_turns(known, first.root)
    assert (2, 1, False) == talk.ledger.known_turns(known, other)
    without_id = [user("a"), assistant("", replace(CALL, id="")), tool("out")]
    assert (2, 0, True) == talk.ledger.known_turns(without_id, first.root)
    second = talk.take(*known)
    assert (4, 0, False) == talk.ledger.known_turns([*known[1:], second.message, user("b")], other)


def test_more_messages_come_before_more_calls_and_those_before_the_lineage():
    """Which is how the best of several sessions is found; what is not known at all is nobody's."""
    ordered = [Known(), Known(2), Known(2, 0, lineage=True), Known(2, 1), Known(3)]

    assert sorted(set(ordered)) == ordered


def test_one_prompt_of_equal_lineages_is_kept_once():
    """However often what stands above is sent anew."""
    talk = Talk()
    one = talk.take(Message("system", "long " * 99), user("a"))
    two = talk.take(Message("system", "long " * 99), user("b"))

    assert one.root.system is two.root.system
    assert one.root is two.root


def test_each_turn_keeps_what_was_sent_to_it_in_its_own_spelling():
    """Though it is of one lineage with what is spelt otherwise, and each spelling is kept once."""
    talk = Talk()
    turns = [talk.take(user("a"), tools=({"a": one},)) for one in (1, 1.0, 1, 1.0)]

    assert len({turn.root for turn in turns}) == 1
    assert [turn.root.sent[:20] for turn in turns] == ['{"tools": [{"a": 1}]', '{"tools": [{"a": 1.0'] * 2
    assert turns[0].root.sent is turns[2].root.sent
    assert turns[1].root.sent is turns[3].root.sent


@pytest.mark.parametrize(
    ("change", "options", "reason"),
    [
        (lambda m: [SYSTEM, user("new")], {}, "first_turn"),
        (lambda m: [SYSTEM], {}, "first_turn"),
        (lambda m: [Message("system", "Make a title."), user("new")], {}, "first_turn"),
        (lambda m: [*m, user("z")], {"tools": TOOLS}, "tools_changed"),
        (lambda m: [*m, user("z")], {"model": "n"}, "model_changed"),
        (lambda m: [*m, user("z")], {"template_kwargs": {"enable_thinking": False}}, "template_kwargs_changed"),
        (lambda m: [Message("system", "Be long."), *m[1:], user("z")], {}, "system_changed"),
        (lambda m: [*m[1:], user("z")], {}, "system_changed"),
        (lambda m: [SYSTEM, user("edited"), *m[2:], user("z")], {}, "history_edited"),
        (lambda m: [*m[:4], assistant("rewritten"), user("z")], {}, "history_edited"),
        (lambda m: [SYSTEM, *m[3:], user("z")], {}, "history_shortened"),
        (lambda m: [SYSTEM, user("a"), user("x"), m[4], user("z")], {}, "history_edited"),
        (lambda m: [SYSTEM, user("a"), user("error")], {}, "history_shortened"),
        (lambda m: [SYSTEM, user("a"), user("extra"), assistant("theirs"), user("z")], {}, "foreign_assistant"),
        (lambda m: [*m, user("q"), assistant("theirs"), user("z")], {}, "foreign_assistant"),
        (lambda m: [*m, assistant("theirs")], {}, "foreign_assistant"),
        (lambda m: m, {}, "no_new_messages"),
    ],
)
def test_why_a_prefix_broke_is_told(change, options, reason):
    """One of a closed set, and the prompt is rendered."""
    talk = Talk()
    messages = history(talk, "a", "b")
    turn = talk.take(*change(messages), **options)

    assert (turn.how, turn.reason) == ("rendered", reason)


@pytest.mark.parametrize("change", [0, 1, 2])
def test_a_change_before_our_answer_is_an_edit_whoever_said_what_changed(change):
    """An example, its answer, or the question itself."""
    talk = Talk()
    asked = [user("example"), assistant("shown"), user("a")]
    answer = talk.take(*asked).message
    asked[change] = replace(asked[change], content="changed")

    assert talk.take(*asked, answer, user("b")).reason == "history_edited"


def test_a_window_that_slides_is_known_for_one_though_others_answered_alike():
    """Agents answer `ok`, and call the same tools, again and again."""
    talk = Talk()
    messages = [SYSTEM]
    for text in ("a", "b", "c"):
        messages.append(user(text))
        messages.append(talk.take(*messages, answer=assistant("ok")).message)
    talk.take(SYSTEM, user("another task"), answer=assistant("ok"))

    assert talk.take(SYSTEM, *messages[3:], user("d")).reason == "history_shortened"


@pytest.mark.parametrize(("start", "reason"), [(2, "history_shortened"), (1, "history_edited")])
def test_an_answer_whose_calls_came_back_is_ours_without_its_text(start, reason):
    """Clients null the text beside calls; the ids prove whose they are."""
    talk = Talk()
    messages = [user("x"), user("a")]
    messages += [talk.take(*messages, answer=assistant("Let me look.", CALL)).message, tool("out")]
    edited = [user("edited")][: 2 - start]

    assert talk.take(*edited, user("a"), assistant("", CALL), tool("out")).reason == reason


def test_few_shot_answers_in_a_first_request_are_no_break():
    """There was nothing to break."""
    talk = Talk()

    assert talk.take(user("a"), assistant("example"), user("b")).reason == "first_turn"


def test_alternating_tools_make_two_lineages_and_say_so():
    """Each call is rendered, since the tools above it changed."""
    talk = Talk()
    first = talk.take(user("a"), tools=TOOLS, answer=assistant("", CALL))
    second = talk.take(user("a"), first.message, tool("out"), answer=assistant("so"))
    third = talk.take(user("a"), first.message, tool("out"), second.message, user("b"), tools=TOOLS)

    assert (second.parent, second.reason) == (None, "tools_changed")
    assert (third.parent, third.reason) == (first, "tools_changed")


def test_a_turn_cut_at_a_stop_string_is_not_bridged():
    """The client saw less than the model sampled."""
    talk = Talk()
    first = talk.take(user("a"), flags=("stop_cut",))
    turn = talk.take(user("a"), first.message, user("b"))

    assert (turn.parent, turn.how, turn.reason) == (first, "rendered", "stop_cut")


def test_a_translated_id_stays_translated_where_the_history_is_not_ours():
    """Whatever broke the prefix, a minted id is never shown to the model."""
    talk = Talk()
    first = talk.take(user("a"), answer=assistant("", replace(CALL, own_id="own")))
    talk.take(user("edited"), first.message, tool("out"))

    seen = talk.renderer.rendered[-1]
    assert ["own"] == [call.id for message in seen for call in message.tool_calls]
    assert ["own"] == [message.tool_call_id for message in seen if message.role == "tool"]


@pytest.mark.parametrize("declines", [False, True])
def test_the_model_sees_its_own_tool_call_ids_and_no_others(declines):
    """Minted ids stay north; a render shows what the model wrote."""
    talk = Talk()
    own = replace(CALL, own_id="functions.bash:0")
    first = talk.take(user("a"), answer=assistant("", own))
    talk.renderer.declines = declines
    turn = talk.take(user("a"), assistant("", CALL), tool("out"), tool("?", "call_other"))

    seen = (talk.renderer.rendered if declines else talk.renderer.bridged)[-1]
    assert turn.parent is first
    assert ["functions.bash:0", "call_other"] == [m.tool_call_id for m in seen if m.role == "tool"]
    assert ["functions.bash:0"][: int(declines)] == [c.id for m in seen for c in m.tool_calls]


def test_a_translated_history_still_matches():
    """Translation is for the model's eyes only."""
    talk = Talk()
    first = talk.take(user("a"), answer=assistant("", replace(CALL, own_id="own")))
    second = talk.take(user("a"), first.message, tool("out"), answer=assistant("done"))
    third = talk.take(user("a"), first.message, tool("out"), second.message, user("b"))

    assert (third.parent, third.how) == (second, "bridged")


@pytest.mark.parametrize("ids", [[1, 2], []])
def test_a_prompt_that_does_not_extend_its_base_cannot_be_sealed(ids):
    """The last check before anything is recorded."""
    talk = Talk()
    first = talk.take(user("a"))
    pending = talk.ledger.prepare(TurnRequest((user("a"), first.message, user("b")), model="m"))

    with pytest.raises(Exception, match="does not extend"):
        seal(pending, Prompt(ids, rope(ids), first, None), first)
    assert len(talk.ledger.turns) == 1


def test_a_prompt_on_another_base_than_the_parent_cannot_be_sealed():
    """Only the parent's ids may stand before the new messages."""
    talk = Talk()
    first, stranger = talk.take(user("a")), talk.take(user("b"))
    pending = talk.ledger.prepare(TurnRequest((user("a"), first.message, user("b")), model="m"))

    with pytest.raises(Exception, match="does not extend"):
        seal(pending, Prompt([0] * 99, rope([0] * 99), stranger, None), first)


def seal(pending, prompt, like, answer=None):
    return pending.seal("x", prompt, like.completion, Answer(answer or like.message), Origin("e", 0), **HOW)
