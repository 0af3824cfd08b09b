"""Which ids of a conversation are trained, and in which context."""

from typing import Any

import pytest

from gateway.core.types import Message, ToolCall, TurnRequest
from gateway.mask.rows import MaskedRow, Span, Unmaskable, rows_of, shortened
from gateway.render.registry import load_tokenizer, renderers_for
from gateway.render.translator import Translator
from tests.render.doubles import LetterRenderer, PlainTokenizer

USER = Message("user", "How warm?")
CALL = Message("assistant", "Let me see.", reasoning="hm", tool_calls=(ToolCall("c", "weather", '{"city":"Bonn"}'),))
RESULT = Message("tool", "12", tool_call_id="c")
SAID = Message("assistant", "Twelve.", reasoning="twelve, then")
TOOLS = ({"type": "function", "function": {"name": "weather"}},)


class Letters(LetterRenderer):
    """Rewrites and endings as a test wants them."""

    def __init__(self, rewrite=lambda text: text):
        super().__init__()
        self.rewrite = rewrite

    def text(self, messages):
        return self.rewrite(super().text(messages))


class Openers(Letters):
    """A family whose answers end at the first letter of the next message, as GLM's do."""

    END = ""

    def get_stop_token_ids(self):
        return [ord("U"), ord("T")]

    def _message(self, message):
        return super()._message(message | {"role": message["role"][0].upper()}).removesuffix("\n")

    def render_ids(self, messages, *, tools=None, add_generation_prompt=False):
        return [ord(letter) for letter in self.text(messages) + "A: " * add_generation_prompt]


def rows(renderer, *messages, untrained=()):
    """The rows, as text and what is trained of it."""
    made = rows_of(Translator(renderer, PlainTokenizer()), TurnRequest(messages), untrained)
    return ["".join(map(chr, row.token_ids)) for row in made], [trained(row) for row in made]


def trained(row):
    """The trained text, one piece an answer."""
    pieces = ["".join(map(chr, row.token_ids[span.start : span.end])) for span in row.answers]
    masked = "".join(chr(i) for i, bit in zip(row.token_ids, row.loss_mask(), strict=True) if bit)
    assert masked == "".join(pieces)
    return pieces


def plain(role, text):
    return Message(role, text)


def test_an_answer_is_trained_up_to_and_with_its_stop_id_and_nothing_around_it():
    """Neither the opening nor the line break that the template puts behind the stop."""
    texts, pieces = rows(Letters(), plain("user", "a"), plain("assistant", "b"), plain("user", "c"), SAID)

    assert texts == ["user: a\nassistant: b$\nuser: c\nassistant: Twelve.$"]
    assert pieces == [["b$", "Twelve.$"]]


def test_what_follows_the_last_answer_is_left_out_and_a_conversation_without_an_answer_has_no_row():
    """Nothing there would be trained."""
    texts, _ = rows(Letters(), plain("user", "a"), plain("assistant", "b"), plain("user", "c"))

    assert texts == ["user: a\nassistant: b$"]
    assert rows(Letters(), plain("user", "a")) == ([], [])


def test_an_answer_that_is_not_to_be_trained_is_context():
    """It stands in the prompt of the next one."""
    history = plain("user", "a"), plain("assistant", "b"), plain("user", "c"), plain("assistant", "d")

    assert rows(Letters(), *history, untrained=[1])[1] == [["d$"]]
    assert rows(Letters(), *history, untrained=[1, 3]) == ([], [])


def test_a_template_that_rewrites_what_was_said_begins_another_row():
    """Each answer is trained once, in the row in which it stands behind what the model was shown."""

    def forgetful(text):
        return text if text.count("user") < 3 else text.replace("b$", "-$", 1)

    history = (plain(role, text) for role, text in zip(["user", "assistant"] * 3, "abcdef", strict=True))
    texts, pieces = rows(Letters(forgetful), *history)

    assert pieces == [["b$", "d$"], ["f$"]]
    assert texts[1] == "user: a\nassistant: -$\nuser: c\nassistant: d$\nuser: e\nassistant: f$"


def test_where_the_next_message_opens_with_the_stop_id_that_is_trained():
    """Also behind the last answer, and a call, whose result opens with another one."""
    history = plain("user", "a"), CALL, RESULT, plain("assistant", "b")

    assert rows(Openers(), *history) == (
        ['U: aA: Let me see.[c weather {"city":"Bonn"}]T c: 12A: bU'],
        [['Let me see.[c weather {"city":"Bonn"}]T', "bU"]],
    )


@pytest.mark.parametrize(
    ("renderer", "says"),
    [
        (Letters(lambda text: text.replace("assistant: b$", "assistant (b)$")), "do not begin as the prompt"),
        (Letters(lambda text: text.replace("b$", "b$$")), "several stop ids"),
        (Letters(lambda text: text.replace("$", "")), "no stop id"),
        (LetterRenderer("x"), "the id c has not the form x"),
    ],
)
def test_a_boundary_that_cannot_be_found_is_an_error_that_names_the_message(renderer, says):
    """And not a guess."""
    messages = [plain("user", "a"), plain("assistant", "b"), plain("user", "c"), CALL]
    with pytest.raises(Unmaskable, match=rf"^message [13]: .*{says}"):
        rows(renderer, *messages)


ROW = MaskedRow(list(range(10)), [Span(1, 2, 4), Span(3, 7, 9)])


@pytest.mark.parametrize(
    ("max_tokens", "side", "ids", "answers"),
    [
        (10, "refuse", range(10), ROW.answers),
        (7, "left", range(3, 10), [Span(1, 0, 1), Span(3, 4, 6)]),
        (1, "left", [9], []),
        (8, "right", range(8), [Span(1, 2, 4), Span(3, 7, 8)]),
        (2, "right", range(2), []),
    ],
)
def test_a_row_is_cut_on_one_side_and_its_answers_with_it(max_tokens, side, ids, answers):
    """What is cut off is counted."""
    cut = shortened(ROW, max_tokens, side)

    assert (cut.token_ids, cut.answers, cut.cut_tokens) == (list(ids), answers, 10 - max_tokens)


def test_a_long_row_is_refused_unless_a_side_is_named():
    """A row is not made shorter without anybody's knowing."""
    with pytest.raises(Unmaskable, match="10 ids, more than --max-tokens 9"):
        shortened(ROW, 9, "refuse")


@pytest.fixture(scope="module")
def qwen(tokenizer_folder):
    return load_tokenizer(tokenizer_folder, "Qwen/Qwen3-8B")


def test_with_a_real_renderer_each_answer_is_what_the_model_says_after_that_very_prompt(qwen):
    """Thoughts within a cycle of calls stay in the row; Qwen3 strips them after a user's message: another row.

    In each row that is one render, the package's own mask is the same.
    """
    translator = renderers_for("auto", qwen, None, retention="template", bridgeless_ok=True)[0].get({})
    messages = (USER, CALL, RESULT, SAID, plain("user", "And now?"), plain("assistant", "The same."))

    made = rows_of(translator, TurnRequest(messages, tools=TOOLS))

    assert [[span.message for span in row.answers] for row in made] == [[1, 3], [5]]
    for row in made:
        for span in row.answers:
            assert row.token_ids[: span.start] == translator.render(messages[: span.message], TOOLS)
        end = row.answers[-1].message + 1
        renderer: Any = translator.renderer
        theirs = renderer.wrapped.render(translator._dicts(messages[:end]), tools=list(TOOLS))
        assert theirs.token_ids[: len(row.token_ids)] == row.token_ids
        ours = {at for at, bit in enumerate(row.loss_mask()) if bit}
        assert ours <= {at for at, sampled in enumerate(theirs.sampled_mask) if sampled}
    assert qwen.decode(made[1].token_ids[made[1].answers[0].start :]).endswith("The same.<|im_end|>")
    assert "twelve, then" in qwen.decode(made[0].token_ids)
    assert "twelve, then" not in qwen.decode(made[1].token_ids)
