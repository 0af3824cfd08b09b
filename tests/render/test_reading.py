"""A completion is read alike in pieces and at once, by whatever parser; and nothing is told that is not so."""

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.types import Delta, Sampling, ToolCall, TurnRequest
from gateway.errors import RendererError
from gateway.render.reading import Ending, Reading
from gateway.render.translator import Translator
from tests.render.doubles import Call, PlainRenderer, PlainTokenizer, Response

HI = [ord(letter) for letter in "Hi."]


@dataclass
class Told:
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Call] = field(default_factory=list)
    flags: tuple[str, ...] = ()


class Letters:
    """A parser that tells every letter at once, a call for each `!`, and finishes with what a test says."""

    def __init__(self, ending=None, call=None):
        self.text, self.calls = "", []
        self.ending, self.call = ending, call or Call("f", {"a": 1})

    def feed(self, token_ids):
        told = []
        for token_id in token_ids:
            if chr(token_id) == "!":
                self.calls.append(self.call)
                told.append(Told(tool_calls=[self.call]))
            elif token_id:
                self.text += chr(token_id)
                told.append(Told(chr(token_id)))
        return told

    def finish(self):
        return self.ending or Told(self.text, tool_calls=self.calls)


class LetterRenderer(PlainRenderer):
    """Reads its answers with such a parser."""

    def __init__(self, parser=None, response=None):
        super().__init__(response)
        self.parser = parser or Letters()
        self.asked = []

    def stream_parser(self, tools, *, prompt_ids):
        self.asked.append((tools, prompt_ids))
        return self.parser


def reading(renderer, *, stop=()):
    numbers = itertools.count()
    translator = Translator(renderer, PlainTokenizer())
    request = TurnRequest((), sampling=Sampling(stop=stop))
    return Reading(translator, [1, 2], request, lambda: f"call_{next(numbers)}")


def read(renderer, ids, **options) -> tuple[list[Delta], Ending]:
    one = reading(renderer, **options)
    told = one.feed(ids)
    return told, one.finish()


def test_without_a_parser_nothing_is_told_before_the_end():
    """Then it is the message that the renderer parsed, part by part."""
    told, ending = read(PlainRenderer(Response("Hi.", "Hm.", [Call("f", {})])), HI)

    assert told == []
    assert ending.rest == [Delta(reasoning="Hm."), Delta(content="Hi."), Delta(call=ToolCall("call_0", "f", "{}"))]
    assert (ending.answer.message.content, ending.answer.flags, ending.kept) == ("Hi.", (), None)


def test_a_parser_is_asked_with_the_prompt_where_it_takes_it():
    """It may tell whether a thought is open there."""
    renderer = LetterRenderer()
    read(renderer, HI)

    assert renderer.asked == [(None, [1, 2])]


def test_what_a_parser_tells_is_told_at_once_and_not_again():
    """Calls with ids of ours."""
    told, ending = read(LetterRenderer(response=Response("Hi.", None, [Call("f", {"a": 1})])), [*HI, ord("!"), 0])

    assert told == [*(Delta(content=letter) for letter in "Hi."), Delta(call=ToolCall("call_0", "f", '{"a": 1}'))]
    assert ending.rest == []
    assert (ending.answer.message.content, ending.answer.message.tool_calls) == ("Hi.", (told[-1].call,))
    assert ending.answer.flags == ()


def test_what_it_finds_last_is_the_rest():
    """White space that was held back, a call that closed with the end."""
    ending = Told("Hi.\n", tool_calls=[Call("f", {})])
    _, read_ending = read(LetterRenderer(Letters(ending)), HI)

    assert read_ending.rest == [Delta(content="\n"), Delta(call=ToolCall("call_0", "f", "{}"))]


def test_a_thought_that_it_finds_last_is_told_behind_the_text():
    """It is in the message all the same."""
    _, ending = read(LetterRenderer(Letters(Told("Hi.", "Hm."))), HI)

    assert ending.rest == [Delta(reasoning="Hm.")]
    assert ending.answer.message.reasoning == "Hm."


@pytest.mark.parametrize(
    ("ending", "written"),
    [(Told("Ho."), "Hi."), (Told("Hi"), "Hi."), (Told(None), "Hi."), (Told("Hi.", tool_calls=[]), "Hi.!")],
)
def test_a_parser_that_finishes_with_another_message_is_refused(ending, written):
    """What was sent cannot be taken back."""
    with pytest.raises(RendererError, match="another message"):
        read(LetterRenderer(Letters(ending)), [ord(letter) for letter in written])


def test_a_call_that_no_client_can_be_given_is_told_as_text():
    """In its place, on a line of its own."""
    broken = Call("f", {}, raw="<broken>", status="invalid_json")
    told, ending = read(LetterRenderer(Letters(call=broken)), [ord("a"), ord("!"), ord("b")])

    assert [delta.content for delta in told] == ["a", "\n<broken>", "b"]
    assert ending.answer.message.content == "a\n<broken>b"
    assert "malformed_tool_call" in ending.answer.flags


def test_a_difference_from_the_renderers_own_parse_is_flagged():
    """As far as a client is told: white space around a text is none."""
    for response, flags in [
        (Response(" Hi.\n"), ()),
        (Response("Ho."), ("parse_differs",)),
        (Response("Hi.", "Hm."), ("parse_differs",)),
        (Response("Hi.", None, [Call("f", {})]), ("parse_differs",)),
    ]:
        assert read(LetterRenderer(response=response), HI)[1].answer.flags == flags


def test_a_renderer_whose_own_parse_fails_differs():
    """Its parser has done the work."""
    renderer = LetterRenderer()
    renderer.parse_response = lambda token_ids: 1 / 0  # type: ignore[method-assign]  # it misbehaves on purpose

    assert read(renderer, HI)[1].answer.flags == ("parse_differs",)


def test_flags_that_a_parser_knows_are_kept_and_others_are_not():
    """The set is closed: it labels a metric."""
    ending = Told("Hi.", flags=("malformed_tool_call", "made_up"))

    assert read(LetterRenderer(Letters(ending), Response("Hi.")), HI)[1].answer.flags == ("malformed_tool_call",)


class Silent(Letters):
    """A parser that makes nothing of whatever it reads."""

    def feed(self, token_ids):
        return []


@pytest.mark.parametrize("renderer", [LetterRenderer(Silent(), Response("")), PlainRenderer(Response(""))])
def test_an_answer_of_which_nothing_could_be_made_is_told_as_text(renderer):
    """With a parser and without."""
    _, ending = read(renderer, HI)

    assert ending.rest == [Delta(content="Hi.")]
    assert ending.answer.flags[0] == "unparsed"


def test_a_parser_that_fails_or_tells_no_text_breaks_its_contract():
    """The error is the renderer's."""
    for parsed in ([Told(5)], [Told("\ud800")], [object()], None):  # type: ignore[arg-type]  # as a renderer might
        renderer = LetterRenderer()
        renderer.parser.feed = lambda token_ids, parsed=parsed: parsed  # type: ignore[method-assign]  # it misbehaves
        with pytest.raises(RendererError):
            read(renderer, HI)


def test_a_stop_string_is_held_back_and_what_it_cuts_is_said_at_the_end():
    """How many ids the turn keeps is known then."""
    one = reading(LetterRenderer(response=Response("a")), stop=("STOP",))
    told = [one.feed([ord(letter)]) for letter in "aSTOPb"]
    ending = one.finish()

    assert [delta.content for deltas in told for delta in deltas] == ["a"]
    assert (ending.kept, ending.answer.message.content, one.shown) == (5, "a", 1)
    assert ending.answer.flags == ()


@given(st.lists(st.sampled_from([*map(ord, "STOPab! "), 0]), max_size=30), st.lists(st.integers(1, 4), max_size=30))
def test_read_in_pieces_or_at_once_a_completion_says_the_same(ids, sizes):
    """The deltas join to the message, and the turn ends at the same id."""
    whole = reading(LetterRenderer(), stop=("STOP", "ab"))
    told = whole.feed(ids)
    expected = whole.finish()

    pieces = reading(LetterRenderer(), stop=("STOP", "ab"))
    said, rest = [], list(ids)
    for size in sizes:
        said += pieces.feed(rest[:size])
        del rest[:size]
    said += pieces.feed(rest)
    ending = pieces.finish()

    assert (ending.answer, ending.kept) == (expected.answer, expected.kept)
    for deltas, end in ((told, expected), (said, ending)):
        joined = "".join(delta.content for delta in [*deltas, *end.rest])
        assert joined == end.answer.message.content
        assert tuple(delta.call for delta in [*deltas, *end.rest] if delta.call) == end.answer.message.tool_calls
