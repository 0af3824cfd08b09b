"""A text that a grammar allows, for the grammars that can be read without compiling them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import orjson

from gateway.sim.example import example
from gateway.sim.personality import Json, Refused, error

_CANNOT = (
    "This simulated engine cannot apply this grammar: it knows json, json_object, choice, and structural tags made of "
    "const_string, token, sequence, or, tag and json_schema in JSON."
)


@dataclass(frozen=True, slots=True)
class Grammars:
    """What a model says under a grammar; text within it is of `words`."""

    words: Sequence[str]
    random: Random
    name_of: Callable[[int], str]
    """A token as text."""

    def conforming(self, asked: Json) -> str:
        """A text that `asked`, vLLM's `structured_outputs`, allows.

        Raises:
            Refused: it is of a kind that must be compiled, or no grammar.
        """
        match asked:
            case {"choice": [*choices]} if choices:
                return str(self.random.choice(choices))
            case {"json_object": True}:
                return self._example({"type": "object", "properties": {"answer": {"type": "string"}}})
            case {"json": str(schema)}:
                return self._example(_object(schema))
            case {"json": dict(schema)}:
                return self._example(schema)
            case {"structural_tag": str(tag)}:
                return self._part(_object(tag).get("format"))
        raise _refused(_CANNOT)

    def _part(self, part: object) -> str:
        match part:
            case {"type": "const_string", "value": str(text)}:
                return text
            case {"type": "token", "token": int(token_id)}:
                return self.name_of(token_id)
            case {"type": "sequence", "elements": [*parts]}:
                return "".join(map(self._part, parts))
            case {"type": "or", "elements": [*parts]} if parts:
                return self._part(self.random.choice(parts))
            case {"type": "json_schema", "json_schema": dict(schema), **rest} if rest.get("style", "json") == "json":
                return self._example(schema)
        raise _refused(_CANNOT)

    def _example(self, schema: Json) -> str:
        # With spaces after commas and colons, as these models write.
        return json.dumps(example(schema, self.words, self.random), ensure_ascii=False)


def _object(text: str) -> Json:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise _refused("Invalid grammar specification.")
    return value


def _refused(text: str) -> Refused:
    return Refused(400, error(400, "BadRequestError", text), in_stream=True)


def cannot() -> Refused:
    """What an engine without a tokenizer answers to any grammar."""
    return _refused("This simulated engine cannot apply grammars: it was started without a tokenizer.")
