"""Renderers and tokenizers that do as a test says."""

from dataclasses import dataclass, field
from typing import Any


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


def plain_factory(tokenizer):
    """For ``--renderer tests.render.doubles:plain_factory``."""
    return PlainRenderer()


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
