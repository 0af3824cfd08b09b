"""Whatever a chat template does, no bridge is given that it would not write itself."""

import json
from copy import copy
from datetime import datetime

import pytest
from jinja2 import TemplateError

from gateway.render.bridge import CertifiedBridge, Proof
from gateway.render.certification import AUDIT_INTERVAL, Certifications
from gateway.render.demo import MODEL_NAME
from gateway.render.discovery import AnswerFormat
from gateway.render.formats import DEMO
from gateway.render.registry import load_tokenizer
from gateway.render.template import TemplateRenderer
from tests.render.hostile import HANGING_ON_THOUGHTS, HOSTILE, REWRITING, SOUND, chatml

pytestmark = pytest.mark.process  # much work: beside the gate

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("look", "go")]
NOW = datetime(2026, 5, 6, 7, 8, 9)  # noqa: DTZ001  # as templates' clock
MANY = 18
"""Turns, by the end of which there are shapes that several turns have."""


def user(text):
    return {"role": "user", "content": text}


def result(text, call_id="a1b2c3d4e"):
    return {"role": "tool", "content": text, "tool_call_id": call_id}


def answer(text="", *, thought=None, calls=()):
    made = [
        {"id": call_id, "type": "function", "function": {"name": "look", "arguments": json.dumps({"at": call_id})}}
        for call_id in calls
    ]
    parts = {"reasoning_content": thought, "tool_calls": made}
    return {"role": "assistant", "content": text, **{key: value for key, value in parts.items() if value}}


ROUNDS = [
    (answer("Hello."), [user("And now?")]),
    (answer("Well, it is so."), [user(" spaces \n")]),
    (answer("it is a long story, of many words, all of which are said here at once, and then some."), [user("Go on.")]),
    (answer("", calls=["a1b2c3d4e"]), [result("nothing")]),
    (answer("I look again.", calls=["a1b2c3d4e", "f1b2c3d4e"]), [result("one"), result("two", "f1b2c3d4e")]),
    (answer("That was all.", thought="hm, hm"), [user("Why?")]),
]


class TokensOnly:
    """A double of the sources that tinker and a remote engine are: what it writes is told in ids alone."""

    def __init__(self, renderer, *, audit_interval, stop_ids=None):
        self._renderer = renderer
        self.render_ids, self.decode = renderer.render_ids, renderer.decode
        self.certifications: Certifications[Proof] = Certifications(audit_interval)
        stops, parse = stop_ids or renderer.get_stop_token_ids(), renderer.parse_response
        self._bridge = CertifiedBridge(self, stops, self.certifications, retention=None, parse=parse)

    def bridge_to_next_turn(self, prompt, sampled, new, *, tools=None, history=None):
        return self._bridge.bridge(prompt, sampled, new, tools, history)


class Counting(TemplateRenderer):
    """Its tokenizer keeps a count of what it wrote, and writes it, too."""

    written = 0

    def text(self, messages, *, tools, opened, moment=None):
        self.written += 1
        text = super().text(messages, tools=tools, opened=opened, moment=moment)
        return text.replace("<|im_start|>user", f"<|im_start|>user {self.written}")


class Talk:
    """A history that grows as agents' do; what was sampled in it, which bridges there were, which of them wrong."""

    def __init__(self, renderer, writer, *, canonical=True):
        self.renderer, self.writer, self.canonical = renderer, writer, canonical
        self.history = [user("Hi")]
        self.prompt = self.rendered()
        self.bridged, self.wrong, self.turns = [], [], 0

    def rendered(self):
        return self.writer.render_ids(self.history, tools=TOOLS, add_generation_prompt=True)

    def text(self, messages):
        return self.writer.text(messages, tools=TOOLS, opened=True, moment=NOW)

    def go_on(self, turns):
        """Take turns, as long as the template writes what comes of it."""
        for nth in range(turns):
            try:
                self.take(*ROUNDS[nth % len(ROUNDS)])
            except TemplateError:
                break
        return self

    def take(self, said, new):
        """Sample `said`, and hold the bridge to `new` against the text of the whole history."""
        before, whole = self.text(self.history), self.text([*self.history, said, *new])
        close = self.writer.get_stop_token_ids()[0]
        sampled, behind = self.sampled(said, whole.removeprefix(before), self.writer.decode([close]))
        sampled.append(close)
        told = [*self.history, said]
        bridge = self.renderer.bridge_to_next_turn(self.prompt, sampled, new, tools=TOOLS, history=told)
        self.history, known = [*told, *new], self.prompt + sampled
        self.turns += 1
        if bridge is not None:
            assert bridge[: len(known)] == known
            self.bridged.append(len(told))
            is_tail = whole.startswith(before) and self.writer.decode(bridge[len(known) :]) == behind
            if not is_tail or (self.canonical and bridge != self.prompt + self.writer.encode(whole[len(before) :])):
                self.wrong.append(len(told))
        self.prompt = bridge or self.rendered()

    def sampled(self, said, rest, close):
        """What the model samples, and what the template writes behind it where it writes all that was said."""
        written, found, behind = rest.partition(close)
        calls = [call["id"] for call in said.get("tool_calls", ())]
        parts = [said["content"].strip(), said.get("reasoning_content", ""), *calls]
        if not found or any(part not in written for part in parts):
            return self.writer.encode(said["content"]), None
        pieces = [written] if self.canonical else written
        return [one for piece in pieces for one in self.writer.encode(piece)], behind


@pytest.fixture(scope="module")
def demo():
    return load_tokenizer(MODEL_NAME, MODEL_NAME)


@pytest.fixture(scope="module")
def writer(demo):
    """A renderer of some template."""

    def made(template, kind=TemplateRenderer, **options):
        tokenizer = copy(demo)
        tokenizer.chat_template = template
        return kind(tokenizer, {}, answers=AnswerFormat("demo", "given", tokenizer, DEMO), **options)

    return made


@pytest.mark.parametrize("canonical", [True, False])
@pytest.mark.parametrize("name", HOSTILE)
def test_no_bridge_is_wrong_whatever_the_template_does(writer, name, canonical):
    """However the answers were split into tokens; and what a template does harmlessly costs no bridge."""
    renderer = writer(HOSTILE[name].template)
    talk = Talk(renderer, renderer, canonical=canonical).go_on(HOSTILE[name].turns)

    assert talk.wrong == []
    share = "never" if not talk.bridged else "all" if len(talk.bridged) == talk.turns else "some"
    assert share == HOSTILE[name].bridged


@pytest.mark.parametrize("name", [name for name, hostile in HOSTILE.items() if hostile.changes])
def test_what_changes_later_is_not_bridged_where_text_can_be_had(writer, name):
    """Neither in turns that rely on others of their shape nor in those that are proven themselves."""
    for interval in (AUDIT_INTERVAL, 1):
        renderer = writer(HOSTILE[name].template, audit_interval=interval)
        talk = Talk(renderer, renderer).go_on(MANY)

        assert talk.wrong == []
        assert 0 < len(talk.bridged) < MANY
        assert renderer.certifications.audits()["failed"] == 0


@pytest.mark.parametrize("name", [*HOSTILE])
def test_no_bridge_is_wrong_without_text_where_every_turn_is_audited(writer, name):
    """As sources of ids alone are; those that change are revoked."""
    hostile, template = HOSTILE[name], writer(HOSTILE[name].template)
    source = TokensOnly(template, audit_interval=1)
    talk = Talk(source, template).go_on(MANY if hostile.changes else hostile.turns)

    assert talk.wrong == []
    assert (source.certifications.audits()["failed"] > 0) is hostile.changes


def test_without_text_what_changes_later_is_caught_by_the_next_audit_and_revoked(writer):
    """Until then a bridge may be wrong: so much is said of these sources."""
    template = writer(HOSTILE["changes after many messages"].template)
    source = TokensOnly(template, audit_interval=3)
    talk = Talk(source, template).go_on(MANY)

    assert 0 < len(talk.wrong) < 3
    assert source.certifications.audits()["failed"] == 1
    assert source.certifications.shapes()["revoked"] == 1


def test_a_count_of_all_that_was_ever_written_is_never_bridged(writer):
    """Such a template is another each time."""
    renderer = writer(SOUND, Counting)
    talk = Talk(renderer, renderer).go_on(len(ROUNDS))

    assert talk.bridged == []


def test_a_sound_template_is_always_bridged(writer):
    """With text and without; then one conversation is one row."""
    renderer = writer(SOUND)
    for bridging in (renderer, TokensOnly(renderer, audit_interval=1)):
        talk = Talk(bridging, renderer).go_on(MANY)

        assert (len(talk.bridged), talk.wrong, bridging.certifications.audits()["failed"]) == (MANY, [], 0)


def test_a_close_that_is_spelt_in_letters_is_bridged_only_where_it_is_the_token_that_was_sampled(writer, demo):
    """Where letters before or behind it flow into the same token, the template writes other ids than were sampled."""
    (close,) = demo.encode("}", add_special_tokens=False)
    history, new = [user("Hi")], [user("?")]
    for text, bridges in (("}\n", True), ("}}\n", False)):
        template = writer(chatml(close=text))
        source = TokensOnly(template, audit_interval=1, stop_ids=[close])
        told = [*history, answer("Hello")]
        prompt = template.render_ids(history, tools=TOOLS, add_generation_prompt=True)
        known = [*prompt, *template.encode("Hello"), close]
        bridge = source.bridge_to_next_turn(prompt, known[len(prompt) :], new, tools=TOOLS, history=told)

        assert (bridge is not None) is bridges, text
        assert bridge in (None, template.render_ids([*told, *new], tools=TOOLS, add_generation_prompt=True))


LONG = ("hm, so be it. " * 9).strip()
SAID = [
    (answer("Yes."), [user("b")]),
    (answer("def f(x):\n    return  x"), [user("b")]),
    (answer("So <b>foo</think>bar"), [user("b")]),
    (answer("Yes.", thought="hm"), [user("b")]),
    (answer("Yes.", thought=LONG), [user("b")]),
    (answer("", calls=["a"]), [result("1", "a")]),
    (answer("", calls=[LONG]), [result("1", LONG)]),
    (answer("ok", calls=["a"]), [result("1", "a")]),
    (answer("look at", calls=["look at"]), [result("1", "look at")]),
    (answer("", calls=["a", "b"]), [result("1", "a"), result("2", "b")]),
    (answer("Yes."), [{**user("b"), "name": "bob<|im_end|>"}]),
    (answer("", calls=["a<|im_end|>"]), [result("1", "a<|im_end|>")]),
]
BETWEEN = [user("Hi"), answer("", thought="hm", calls=["x"]), result("1", "x")]


def bridged(bridging, writer, sound, history, said, new):
    """What a bridge adds to an answer as it is sampled by all models, as text; and what the template writes there."""
    spelt, before = (one.text(history, tools=TOOLS, opened=True, moment=NOW) for one in (sound, writer))
    sampled = sound.text([*history, said], tools=TOOLS, opened=False, moment=NOW).removeprefix(spelt).strip("\n")
    prompt = writer.render_ids(history, tools=TOOLS, add_generation_prompt=True)
    known = sound.encode(sampled)
    bridge = bridging.bridge_to_next_turn(prompt, known, new, tools=TOOLS, history=[*history, said])
    whole = writer.text([*history, said, *new], tools=TOOLS, opened=True, moment=NOW)
    return None if bridge is None else before + sampled + writer.decode(bridge[len(prompt + known) :]), whole


@pytest.mark.parametrize("name", REWRITING)
@pytest.mark.parametrize("has_text", [True, False])
def test_no_answer_is_bridged_that_the_template_writes_otherwise(writer, name, has_text):
    """Whatever it leaves out, adds or rewrites, be it of some answers alone, behind others of their shape."""
    renderer, sound = writer(REWRITING[name]), writer(SOUND)
    bridging = renderer if has_text else TokensOnly(renderer, audit_interval=1)
    turns = [*SAID, *SAID] if has_text else SAID  # without text each turn is proven anew here, with it the first alone
    for history in ([user("Hi")], BETWEEN):
        for turn in turns:
            text, whole = bridged(bridging, renderer, sound, history, *turn)
            assert text in (None, whole), turn


def test_all_answers_are_bridged_that_a_sound_template_writes(writer):
    """But with names in which an answer would be closed."""
    sound = writer(SOUND)
    for bridging in (sound, TokensOnly(sound, audit_interval=1)):
        told = [text == whole for text, whole in (bridged(bridging, sound, sound, BETWEEN, *turn) for turn in SAID)]
        assert told == [True] * 10 + [False] * 2


@pytest.mark.parametrize("name", HANGING_ON_THOUGHTS)
def test_where_thoughts_are_kept_what_follows_is_what_the_template_writes_with_them(writer, name):
    """Though all else is held against a history in which nobody thought."""
    renderer, sound = writer(HANGING_ON_THOUGHTS[name], retention="all"), writer(SOUND)
    for turn in SAID:
        text, whole = bridged(renderer, renderer, sound, [user("Hi")], *turn)
        assert text in (None, whole)


def test_thoughts_before_and_behind_the_last_user_are_told_apart_without_text(writer):
    """Each is proven by itself, long before any audit is due."""
    renderer, sound = writer(REWRITING["drops thoughts behind the last user"]), writer(SOUND)
    call, thought, out = answer("", calls=["a"]), answer("", thought="hm", calls=["a"]), result("1", "a")
    source = TokensOnly(renderer, audit_interval=AUDIT_INTERVAL)
    for first, second, is_bridged in ((thought, call, True), (call, thought, False)):
        history = [user("Hi"), first, out, user("b"), second, out]
        text, whole = bridged(source, renderer, sound, history, answer("Done."), [user("c")])
        assert text == (whole if is_bridged else None)


def test_one_peculiar_answer_at_an_audit_costs_others_of_its_shape_nothing(writer):
    """It has no bridge itself; the stand-ins that are as long have."""
    renderer, sound = writer(REWRITING["takes what is in front of a closed thought for one"]), writer(SOUND)
    source = TokensOnly(renderer, audit_interval=1)
    found = [bridged(source, renderer, sound, [user("Hi")], *SAID[nth])[0] is not None for nth in (0, 2, 0)]
    assert (found, source.certifications.shapes()["revoked"]) == ([True, False, True], 0)
