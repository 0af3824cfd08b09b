"""What a model without a script says: it thinks, calls a tool that the prompt offers, and reports what came back."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import orjson

from gateway.sim.example import example
from gateway.sim.grammar import Grammars
from gateway.sim.personality import Json, section
from gateway.sim.vocabulary import Vocabulary

_OPENING = "<|im_start|>assistant\n"
_NO_THOUGHT = "<think>\n\n</think>\n\n"
"""What a template writes behind the opening when no thought is wanted."""
_TURN = re.compile(r"<\|im_start\|>(\w+)\n")
_OFFER = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
_RESULT = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")
_WORD = re.compile(r"[^\W\d_]{4,12}")

_THOUGHTS = (
    "The user is asking about {0}. I should look into {1} before I answer.",
    "Let me think about {0}: there is more than one way to see {1}, so I will go step by step.",
    "First I need to find out about {0}; then {1} will be easier to explain.",
    "Okay, {0}. That depends on {1}, and I cannot be sure without checking.",
)
_ANSWERS = (
    "Here is what I can say about {0}: it comes down to {1}.\n\n- {0} first\n- then {1}\n\nIs there anything else?",
    "Regarding {0}, the short answer is {1} — the long one would take a few more steps.",
    "I looked at {0} and {1}. Everything points to the same result, so we are done.",
)
_REPORTS = (
    'The tool answered "{2}". So, about {0}: {1} is settled now.',
    "According to the result ({2}), {0} is as expected and {1} needs no further work.",
    "Done. The result was `{2}`, which answers the question about {0} and {1}.",
)


class ReadPrompt(NamedTuple):
    """What a prompt shows of a conversation, in the words of the demo's chat template, which are Qwen3's."""

    tools: list[Json]
    role: str
    text: str
    opening: str


@dataclass(frozen=True, slots=True)
class Policy:
    """A model of Qwen3's manners: ``<think>``, Hermes tool calls, ``<|im_end|>``.

    The same prompt and seed give the same answer, and a prompt that breaks off amid an answer gets the rest of it.
    About `split_rate` of its tokens are not the ones that the tokenizer would choose, as happens when ids are sampled.
    """

    vocabulary: Vocabulary
    split_rate: float = 0.1

    def say(self, prompt_ids: Sequence[int], seed: int) -> list[int]:
        """The ids of an answer to a prompt, its end included; what of it stands in the prompt already left out."""
        for asked in self._beginnings(prompt_ids):
            answer, begun = self._fresh(prompt_ids[:asked], seed), list(prompt_ids[asked:])
            if len(answer) > len(begun) and answer[: len(begun)] == begun:
                return answer[len(begun) :]
        return self._fresh(prompt_ids, seed)

    def conform(self, prompt_ids: Sequence[int], seed: int, asked: Json) -> list[int]:
        """As `say`, within the grammar that `asked`, vLLM's `structured_outputs`, is.

        Raises:
            Refused: it is one that this engine cannot apply.
        """
        random = random_of(prompt_ids, seed)
        words = _words(read_prompt(self.vocabulary.decode(prompt_ids)).text)
        text = Grammars(words, random, self.vocabulary.name_of).conforming(asked)
        return self.vocabulary.spell(f"{text}<|im_end|>", self.split_rate, random)

    def has_thought(self, prompt_ids: Sequence[int]) -> bool:
        """Whether the last thought of a prompt, wherever it stands, is closed, as reasoning parsers look at it."""
        text = self.vocabulary.decode(prompt_ids)
        return text.rfind("</think>") > text.rfind("<think>")

    def _beginnings(self, prompt_ids: Sequence[int]) -> list[int]:
        """Where an answer may have begun that a prompt breaks off amid; nowhere when nothing follows its opening."""
        marker = self.vocabulary.id_of("<|im_start|>")
        opening = self.vocabulary.encode(_OPENING)
        at = next((at for at in range(len(prompt_ids) - 1, -1, -1) if prompt_ids[at] == marker), len(prompt_ids))
        start = at + len(opening)
        if list(prompt_ids[at:start]) != opening or start == len(prompt_ids):
            return []
        thoughtless = self.vocabulary.encode(_NO_THOUGHT)
        closed = start + len(thoughtless)
        has_more = closed < len(prompt_ids) and list(prompt_ids[start:closed]) == thoughtless
        return [start, closed] if has_more else [start]

    def _fresh(self, prompt_ids: Sequence[int], seed: int) -> list[int]:
        random = random_of(prompt_ids, seed)
        text = _answer(read_prompt(self.vocabulary.decode(prompt_ids)), random)
        return self.vocabulary.spell(text, self.split_rate, random)


def random_of(prompt_ids: Sequence[int], seed: int) -> Random:
    """The chance that a prompt and a seed stand for."""
    digest = hashlib.sha256(orjson.dumps([list(prompt_ids), seed])).digest()
    return Random(digest)  # noqa: S311  # an answer to repeat, not a secret


def read_prompt(text: str) -> ReadPrompt:
    """What a prompt shows: the tools that it offers, who spoke last, what, and what the answer is to go on from."""
    turns = list(_TURN.finditer(text))
    offer = _OFFER.search(text, 0, turns[1].start() if len(turns) > 1 else len(text))
    tools = [tool for line in offer[1].splitlines() if (tool := _tool(line))] if offer else []
    opening = text[turns[-1].end() :] if turns else ""
    last = turns[-2] if len(turns) > 1 else None
    if last is None:
        return ReadPrompt(tools, "user", text, opening)
    said = text[last.end() : turns[-1].start()].strip().removesuffix("<|im_end|>")
    role = "tool" if last[1] == "tool" or said.startswith("<tool_response>") else last[1]
    return ReadPrompt(tools, role, said, opening)


def _tool(line: str) -> Json | None:
    try:
        tool = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(tool, dict):
        return None
    function = section(tool, "function") or tool
    return function if isinstance(function.get("name"), str) else None


def _words(text: str) -> list[str]:
    """Two words or more to talk with, of the prompt where it has them."""
    found = list(dict.fromkeys(_WORD.findall(_TAG.sub(" ", text))))
    return found if len(found) > 1 else [*found, "this", "that"]


def _answer(prompt: ReadPrompt, random: Random) -> str:
    words = _words(prompt.text)
    first, second = random.sample(words, 2)
    pair = (first, second)
    closed = "</think>" in prompt.opening  # the template has already thought, or been told not to
    open_tag = "" if "<think>" in prompt.opening else "<think>\n"
    thought = "" if closed else f"{open_tag}{random.choice(_THOUGHTS).format(*pair)}\n</think>\n\n"
    return f"{thought}{_deed(prompt, words, pair, random)}<|im_end|>"


def _deed(prompt: ReadPrompt, words: list[str], pair: tuple[str, str], random: Random) -> str:
    if prompt.role == "tool":
        results = _RESULT.findall(prompt.text)
        short = " ".join((results[-1] if results else prompt.text).split())[:60].replace("<", "(")
        return random.choice(_REPORTS).format(*pair, short)
    if not prompt.tools:
        return random.choice(_ANSWERS).format(*pair)
    tool = random.choice(prompt.tools)
    schema = section(tool, "parameters")
    arguments = example(schema or {"type": "object"}, words, random)
    call = {"name": tool["name"], "arguments": arguments if isinstance(arguments, dict) else {}}
    # With spaces after commas and colons, as these models write.
    return f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"
