"""Renderers and tokenizers that do as a test says."""

import re
from dataclasses import dataclass, field
from typing import Any

from gateway.core.types import TurnRequest
from gateway.render.discovery import AnswerFormat
from gateway.render.reading import Reading


@dataclass
class Call:
    name: str | None = None
    arguments: Any = None
    raw: str = ""
    status: str | None = "ok"
    token_span: tuple[int, int] | None = None
    id: str | None = None


@dataclass
class Response:
    content: str | None = ""
    reasoning_content: str | None = None
    tool_calls: list[Call] = field(default_factory=list)


@dataclass
class Holder:
    token_ids: list[int]


class PlainTokenizer:
    """One id a character."""

    name_or_path = "plain"

    def encode(self, text, *, add_special_tokens=True):
        return [ord(character) for character in text]

    def decode(self, token_ids, *, skip_special_tokens=False):
        return "".join(map(chr, token_ids))

    def get_vocab(self):
        return {"a": 97, "long": 1}


class PlainRenderer:
    """Fulfils the contract; `result` stands for whatever a method should return instead."""

    def __init__(self, response=None, *, bridges=True):
        self.response = response or Response("hello")
        self.bridges = bridges
        self.seen: list[Any] = []

    def render_ids(self, messages, *, tools=None, add_generation_prompt=False):
        self.seen.append((messages, tools, add_generation_prompt))
        return [1] * len(messages)

    def parse_response(self, token_ids):
        self.seen.append(token_ids)
        return self.response

    def get_stop_token_ids(self):
        return [0]

    def bridge_to_next_turn(self, previous_prompt_ids, previous_completion_ids, new_messages, *, tools=None):
        self.seen.append((new_messages, tools))
        return Holder([*previous_prompt_ids, *previous_completion_ids, 9]) if self.bridges else None


class LetterRenderer:
    """Writes histories as text, one id a letter, with the ids of calls and results in it.

    A call reads ``[id name arguments]``; an id that has not the `form` is refused, as templates do.
    """

    END = "$"

    def __init__(self, form=r".*"):
        self.form = form

    def text(self, messages):
        return "".join(self._message(message) for message in messages)

    def _message(self, message):
        calls = "".join(self._call(call) for call in message.get("tool_calls", ()))
        answered = f" {self._checked(message['tool_call_id'])}" if "tool_call_id" in message else ""
        end = self.END if message["role"] == "assistant" else ""
        return f"{message['role']}{answered}: {message['content']}{calls}{end}\n"

    def _call(self, call):
        return f"[{self._checked(call['id'])} {call['function']['name']} {call['function']['arguments']}]"

    def _checked(self, call_id):
        if not re.fullmatch(self.form, call_id):
            raise ValueError(f"the id {call_id} has not the form {self.form}")
        return call_id

    def render_ids(self, messages, *, tools=None, add_generation_prompt=False):
        return [ord(letter) for letter in self.text(messages) + "assistant: " * add_generation_prompt]

    def parse_response(self, token_ids):
        text = "".join(map(chr, token_ids)).removesuffix(self.END)
        calls = [Call(name, arguments, id=own) for own, name, arguments in re.findall(r"\[(\S*) (\w+) (.*?)\]", text)]
        return Response(re.sub(r"\[.*\]", "", text), tool_calls=calls)

    def get_stop_token_ids(self):
        return [ord(self.END)]

    def bridge_to_next_turn(self, previous_prompt_ids, previous_completion_ids, new_messages, *, tools=None):
        if previous_completion_ids[-1:] != [ord(self.END)]:
            return None
        return (
            previous_prompt_ids
            + previous_completion_ids
            + [10]
            + self.render_ids(new_messages, add_generation_prompt=True)
        )


def plain_factory(tokenizer):
    """For ``--renderer tests.render.doubles:plain_factory``."""
    return PlainRenderer()


def letter_factory(tokenizer):
    """One that shows tool-call ids, and demands nine letters and digits."""
    return LetterRenderer("[A-Za-z0-9]{9}")


def toolless_factory(tokenizer):
    """One that knows no tools: its bridge takes results, its template no ids at all."""
    renderer = LetterRenderer("")
    renderer.bridge_to_next_turn = PlainRenderer().bridge_to_next_turn  # type: ignore[method-assign]  # half of it works
    return renderer


def text_only_factory(tokenizer):
    """One of whose model nobody knows how it writes calls."""
    renderer: Any = PlainRenderer()
    renderer.answers = AnswerFormat("text only", "it writes none", tokenizer, takes_tools=False)
    return renderer


def class_factory(tokenizer):
    """Returns the class in place of a renderer of it."""
    return PlainRenderer


def empty_factory(tokenizer):
    """Returns something that is no renderer."""
    return object()


MODULE_NAME = "no factory"


def failing_factory(tokenizer):
    """Fails as factories do."""
    raise RuntimeError("no weights")


def endless_factory(tokenizer):
    """A renderer without a stop id."""
    renderer = PlainRenderer()
    renderer.get_stop_token_ids = list  # type: ignore[method-assign]  # it misbehaves on purpose
    return renderer


def read(translator, ids, prompt_ids=(), tools=(), mint=str):
    """The answer that a completion is read as, all of it at once."""
    reading = Reading(translator, list(prompt_ids), TurnRequest((), tools=tuple(tools)), mint)
    reading.feed(ids)
    return reading.finish().answer
