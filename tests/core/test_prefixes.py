"""Which sessions are asked about a history, and in which order."""

from gateway.core.canon import Root
from gateway.core.prefixes import Prefixes, places
from gateway.core.types import Message, ToolCall

SYSTEM = Message("system", "Be brief.")
HELLO, HI, MORE, YES = (
    Message("user", "Hello?"),
    Message("assistant", "Hi."),
    Message("user", "More."),
    Message("assistant", "Yes."),
)
ROOT, OTHER_ROOT = Root("m", "{}", "[]", "[]", "{}"), Root("m", "{}", "[1]", "[]", "{}")


def entered(*turns: tuple[str, list[Message], Message], root: Root = ROOT) -> Prefixes:
    """An index of these turns."""
    prefixes = Prefixes()
    for session_id, prompt, answer in turns:
        prefixes.enter(session_id, prompt, [answer], root)
    return prefixes


def exact(prefixes: Prefixes, *messages: Message, root: Root = ROOT) -> list[tuple[str, int]]:
    """The sessions that gave an answer of this history, and how many messages they may know."""
    return list(prefixes.exact(places(messages), root))


def likely(prefixes: Prefixes, *messages: Message) -> list[tuple[str, int]]:
    """The sessions that were asked the same."""
    return list(prefixes.likely(places(messages)))


def called(call_id: str, arguments: str = "{}", text: str = "") -> Message:
    """An answer with one call."""
    return Message("assistant", text, tool_calls=(ToolCall(call_id, "f", arguments),))


def test_a_history_without_an_answer_is_nobodys():
    """Whatever else it shares."""
    prefixes = entered(("s", [HELLO], HI))

    for history in ([HELLO], [], [HELLO, MORE], [SYSTEM]):
        assert exact(prefixes, *history) == likely(prefixes, *history) == []


def test_a_history_with_an_answer_leads_to_who_gave_it_and_to_who_was_asked_the_same():
    """However the answer is replayed: whether it is the same is for the ledger to say."""
    prefixes = entered(("s", [HELLO], HI), ("t", [MORE], HI))

    for answer, found in ((HI, [("s", 2)]), (Message("assistant", "\nHi. "), [("s", 2)]), (Message("assistant"), [])):
        assert exact(prefixes, SYSTEM, HELLO, answer, MORE) == found
        assert likely(prefixes, SYSTEM, HELLO, answer, MORE) == [("s", 2)]
    for look_up in (exact, likely):
        assert look_up(prefixes, Message("user", "Hello? "), HI) == []


def test_what_stands_above_the_messages_does_not_keep_a_session_from_being_named():
    """Clients swap system prompts; later system messages are part of what was said."""
    prefixes = entered(("s", [SYSTEM, HELLO], HI))

    for look_up in (exact, likely):
        assert look_up(prefixes, HELLO, HI) == look_up(prefixes, Message("system", "Else."), HELLO, HI) == [("s", 2)]
        assert look_up(prefixes, HELLO, SYSTEM, HI) == []
    assert exact(prefixes, HELLO, HI, root=OTHER_ROOT) == [("s", 2)]


def test_who_can_know_most_is_asked_first_and_the_latest_among_equals():
    """Each session once, with the most of the messages that it can know."""
    whole = [HELLO, HI, MORE, YES]
    prefixes = entered(
        ("long", [HELLO], HI),
        ("long", whole[:3], YES),
        ("old", [HELLO], HI),
        ("new", [HELLO], HI),
        ("old", [HELLO], HI),
    )

    for look_up in (exact, likely):
        assert look_up(prefixes, *whole) == [("long", 4), ("old", 2), ("new", 2)]


def test_of_those_that_said_the_same_the_own_lineage_is_asked_first_however_many_there_are():
    """What stands above tells two groups apart."""
    prefixes = entered(("mine", [HELLO], HI))
    for at in range(200):
        prefixes.enter(f"s{at}", [HELLO], [HI], OTHER_ROOT)

    named = exact(prefixes, HELLO, HI)
    assert named[:2] == [("mine", 2), ("s199", 2)]
    assert len(named) <= 64


def test_a_session_whose_answer_it_was_is_named_however_many_began_alike():
    """A group of attempts at one task, told apart by any answer on the way."""
    turns = [(f"s{at}", [HELLO], Message("assistant", f"Answer {at}.")) for at in range(200)]
    prefixes = entered(*turns)
    for session_id, prompt, answer in turns:
        prefixes.enter(session_id, [*prompt, answer, MORE], [YES], ROOT)

    for session_id, prompt, answer in turns:
        replayed = Message("assistant", f"\n{answer.content} ")
        assert exact(prefixes, *prompt, replayed, MORE, YES) == [(session_id, 4)]
        rewritten = [*prompt, replayed, MORE, Message("assistant", "rewritten")]
        assert exact(prefixes, *rewritten) == [(session_id, 2)]
        assert len(likely(prefixes, *rewritten)) == 32


def test_an_answer_is_known_by_the_ids_of_its_calls():
    """Whatever became of its text and arguments: 200 that called the same are told apart."""
    prefixes = entered(*((f"s{at}", [HELLO], called(f"c{at}", text="Let me look.")) for at in range(200)))

    for at in range(200):
        for replayed in (called(f"c{at}", text="Let me look."), called(f"c{at}"), called(f"c{at}", '{"a": 1}')):
            assert exact(prefixes, HELLO, replayed) == [(f"s{at}", 2)]


def test_without_ids_an_answer_of_calls_is_known_by_its_calls():
    """Arguments may be spelt anew."""
    prefixes = entered(*((f"s{at}", [HELLO], called(f"c{at}", f'{{"at": {at}}}')) for at in (0, 1, 2)))

    assert exact(prefixes, HELLO, called("", '{"at":0}')) == [("s0", 2)]
    assert exact(prefixes, HELLO, called("", '{"at":0}', "text")) == []


def test_each_of_several_answers_leads_to_its_session():
    """They are those of one call."""
    prefixes = Prefixes()
    prefixes.enter("s", [HELLO], [HI, YES, called("c")], ROOT)

    for answer in (HI, YES, called("c")):
        assert exact(prefixes, HELLO, answer) == [("s", 2)]


def test_foreign_answers_do_not_count_as_words_of_others():
    """A prompt may hold answers of nobody here."""
    prefixes = entered(("s", [HELLO, Message("assistant", "Foreign."), MORE], YES))

    assert exact(prefixes, HELLO, Message("assistant", "Foreign."), MORE, YES) == [("s", 4)]
    assert likely(prefixes, HELLO, Message("assistant", "foreign"), MORE, YES) == [("s", 4)]
    assert likely(prefixes, HELLO, Message("assistant", "Foreign.")) == []


def test_who_leaves_is_named_no_more_and_leaves_nothing():
    """Others stay; leaving twice is leaving once."""
    prefixes = entered(("s", [HELLO], HI), ("s", [HELLO, HI, MORE], called("c")), ("t", [HELLO], HI))

    prefixes.leave("s")
    prefixes.leave("s")
    assert exact(prefixes, HELLO, HI, MORE, called("c")) == likely(prefixes, HELLO, HI, MORE, YES) == [("t", 2)]

    prefixes.leave("t")
    assert len(prefixes) == 0


def test_among_many_that_said_the_same_the_one_that_thought_the_same_is_named_first():
    """However many have said it since."""
    prefixes = Prefixes()
    thoughts = [Message("assistant", "4", reasoning=f"thought {at}") for at in range(100)]
    for at, answer in enumerate(thoughts):
        prefixes.enter(f"s{at}", [HELLO], [answer], ROOT)

    for at, answer in enumerate(thoughts):
        assert exact(prefixes, HELLO, answer, MORE)[0] == (f"s{at}", 2)
    assert exact(prefixes, HELLO, Message("assistant", "4"), MORE)[0] == ("s99", 2)
