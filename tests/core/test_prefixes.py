"""Which sessions are asked about a history, and in which order."""

from gateway.core.prefixes import Prefixes
from gateway.core.types import Message, ToolCall

SYSTEM = Message("system", "Be brief.")
HELLO, HI, MORE, YES = (
    Message("user", "Hello?"),
    Message("assistant", "Hi."),
    Message("user", "More."),
    Message("assistant", "Yes."),
)


def entered(*turns: tuple[str, list[Message], Message]) -> Prefixes:
    """An index of these turns."""
    prefixes = Prefixes()
    for session_id, prompt, answer in turns:
        prefixes.enter(session_id, prompt, answer)
    return prefixes


def names(prefixes: Prefixes, *messages: Message) -> list[str]:
    """The sessions named for a history."""
    return [session_id for session_id, _ in prefixes.candidates(messages)]


def test_a_history_without_an_answer_is_nobodys():
    """Whatever else it shares."""
    prefixes = entered(("s", [HELLO], HI))

    assert names(prefixes, HELLO) == []
    assert names(prefixes) == []
    assert names(prefixes, HELLO, MORE) == []


def test_a_history_with_an_answer_leads_to_who_was_asked_the_same():
    """However the answer is replayed: whether it is the same is for the ledger to say."""
    prefixes = entered(("s", [HELLO], HI), ("t", [MORE], HI))

    for answer in (HI, Message("assistant"), Message("assistant", "Other.")):
        assert list(prefixes.candidates([SYSTEM, HELLO, answer, MORE])) == [("s", 2)]
    assert names(prefixes, Message("user", "Hello? "), HI) == []


def test_what_stands_above_the_messages_is_not_looked_at():
    """Clients swap system prompts; later system messages are part of what was said."""
    prefixes = entered(("s", [SYSTEM, HELLO], HI))

    assert names(prefixes, HELLO, HI) == ["s"]
    assert names(prefixes, Message("system", "Else."), HELLO, HI) == ["s"]
    assert names(prefixes, HELLO, SYSTEM, HI) == []


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

    assert list(prefixes.candidates(whole)) == [("long", 4), ("old", 2), ("new", 2)]


def test_the_session_whose_answer_it_was_is_asked_before_later_ones():
    """A group of attempts at one task begins alike; each is still found, however many there are."""
    turns = [(f"s{at}", [HELLO], Message("assistant", f"Answer {at}.")) for at in range(200)]
    prefixes = entered(*turns)

    for session_id, prompt, answer in turns:
        named = names(prefixes, *prompt, Message("assistant", f"\n{answer.content} "))
        assert named[0] == session_id
        assert len(named) == len(set(named)) <= 32


def test_an_answer_of_calls_is_known_by_its_calls():
    """Arguments may be spelt anew."""
    calls = [Message("assistant", tool_calls=(ToolCall(f"c{at}", "f", f'{{"at": {at}}}'),)) for at in (0, 1, 2)]
    prefixes = entered(*((f"s{at}", [HELLO], answer) for at, answer in enumerate(calls)))

    replayed = Message("assistant", "text", tool_calls=(ToolCall("c0", "f", '{"at":0}'),))
    assert names(prefixes, HELLO, replayed)[0] == "s2"
    assert names(prefixes, HELLO, Message("assistant", tool_calls=replayed.tool_calls))[0] == "s0"


def test_foreign_answers_do_not_count_as_words_of_others():
    """A prompt may hold answers of nobody here."""
    prefixes = entered(("s", [HELLO, Message("assistant", "Foreign."), MORE], YES))

    assert list(prefixes.candidates([HELLO, Message("assistant", "foreign"), MORE, YES])) == [("s", 4)]
    assert names(prefixes, HELLO, Message("assistant", "Foreign.")) == []


def test_who_leaves_is_named_no_more_and_leaves_nothing():
    """Others stay; leaving twice is leaving once."""
    prefixes = entered(("s", [HELLO], HI), ("s", [HELLO, HI, MORE], YES), ("t", [HELLO], HI))

    prefixes.leave("s")
    prefixes.leave("s")
    assert names(prefixes, HELLO, HI, MORE, YES) == ["t"]

    prefixes.leave("t")
    assert not prefixes._sessions
    assert not prefixes._keys
