"""The model that a harness is examined with: it has thoughts, words beside its calls, and a spelling of its own.

Harnesses drop, strip and respell just that. Its calls do no harm (`harmless`), and it comes to an end.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from gateway.doctor.harmless import (
    COMMANDS,
    WORDS,
    arguments_of,
    finishes,
    may_call,
    takes_commands,
    value_of,
    with_command,
)
from gateway.sim.grammar import Grammars
from gateway.sim.personality import Json
from gateway.sim.policy import Policy, random_of, read_prompt

_END = "<|im_end|>"
_SPEAKER = re.compile(r"<\|im_start\|>(\w+)\n(<tool_response>)?")
_MAGIC = re.compile(r"echo [A-Z][A-Z0-9_]{7,}\b")
"""How an agent that knows nothing but a shell is told that all is done, as its instructions say it."""
_FENCE = re.compile(r"```((?:\w*(?:bash|shell|command)\w*|sh))\n")
"""How an agent whose model calls no tools says that commands are written."""
_NAME = re.compile(r'"name": "([^"]+)"')
_MOST = 12
"""Requests of a user that are answered at length, and conversations so long; beyond it every answer is the last."""

_THOUGHT = "  I should look first (step {0}).\n\nThen — act. "
_BESIDE = ("\n  Let me look — café.  \n", "", " Once more:\n")
_CUT_OFF = '<tool_call>\n{"name": "nothing", "arguments": {"example": "sam'
_FINAL = "\n  All is well — nothing had to be done ☃.  \n"


class _Scene(NamedTuple):
    """Where a conversation stands, as a prompt shows it."""

    tools: list[Json]
    text: str
    answers: int
    """How many there are already."""
    since_asked: int
    """Of these, since a user has spoken."""
    thinks: str
    """The thought, as far as the template leaves that to the model."""


@dataclass(frozen=True, slots=True)
class SimModel(Policy):
    """A model that calls a tool in each of `turns` - 1 turns after a user has spoken, where there is one to call, and
    ends in the turn that follows: by the tool or command that ends the agent, or by an answer.
    """

    turns: int = 4
    allowed: frozenset[str] = frozenset()
    """Names of the tools to call; empty: those that seem to change nothing."""
    stumbles: bool = False
    """Whether its second answer holds a call that is cut off."""
    _said: Iterator[int] = field(default_factory=count)
    # Numbers what was said to an agent with tools.

    def conform(self, prompt_ids: Sequence[int], seed: int, asked: Json) -> list[int]:
        """As `say`, within a grammar."""
        scene = self._scene(prompt_ids)
        random = random_of(prompt_ids, seed)
        grammars = _HarmlessGrammars(WORDS, random, self.vocabulary.name_of, scene, self)
        return self.vocabulary.spell(f"{grammars.conforming(asked)}{_END}", self.split_rate, random)

    def _fresh(self, prompt_ids: Sequence[int], seed: int) -> list[int]:
        scene = self._scene(prompt_ids)
        text = f"{scene.thinks}{self._deed(scene)}{_END}"
        return self.vocabulary.spell(text, self.split_rate, random_of(prompt_ids, seed))

    def _scene(self, prompt_ids: Sequence[int]) -> _Scene:
        text = self.vocabulary.decode(prompt_ids)
        read = read_prompt(text)
        roles = ["tool" if result else role for role, result in _SPEAKER.findall(text)][:-1]
        asked = max((at for at, role in enumerate(roles) if role == "user"), default=0)
        answers = roles.count("assistant")
        thought = f"<think>\n{_THOUGHT.format(answers + 1)}\n</think>\n\n"
        thinks = "" if "</think>" in read.opening else thought
        return _Scene(read.tools, text, answers, roles[asked:].count("assistant"), thinks)

    def ends(self, scene: _Scene) -> bool:
        """Whether the next answer is the last one that the user's words get."""
        return scene.answers >= self.turns * _MOST or scene.since_asked >= self.turns - 1

    def _deed(self, scene: _Scene) -> str:
        if not scene.tools:
            return self._in_words(scene)
        said = next(self._said)
        if self.stumbles and said == 1:
            return _CUT_OFF
        tools = [tool for tool in scene.tools if self.calls(tool)]
        if self.ends(scene) or self._goes_in_circles(scene, said) or not tools:
            return self._last(scene)
        nth = scene.answers
        tool = tools[nth % len(tools)]
        called = [_called(tool, arguments_of(tool, nth + more)) for more in range(1 + (nth % 3 == 2))]
        return _BESIDE[nth % len(_BESIDE)] + "\n".join(called)

    def _in_words(self, scene: _Scene) -> str:
        """A command between fences, where an agent's instructions have some; what came of it is told by a user."""
        fence, magic = _FENCE.search(scene.text), _MAGIC.search(scene.text)
        over = scene.answers >= self.turns - 1
        if fence is None or (over and magic is None) or self.ends(scene):
            return _FINAL
        command = magic[0] if over and magic else COMMANDS[scene.answers % len(COMMANDS)]
        return f"{_BESIDE[0]}\n```{fence[1]}\n{command}\n```\n"

    def _goes_in_circles(self, scene: _Scene, said: int) -> bool:
        """Whether so much was said that a history which shows little of it will never say that it is over."""
        return said >= (2 * _MOST if scene.answers else _MOST // 2) * self.turns

    def calls(self, tool: Json) -> bool:
        """Whether a tool is one to call while nothing is over."""
        name = str(tool["name"])
        return may_call(tool, self.allowed) and (name in self.allowed or not finishes(name))

    def _last(self, scene: _Scene) -> str:
        if scene.answers >= self.turns * _MOST:
            return _FINAL
        finishing = next((tool for tool in scene.tools if finishes(str(tool["name"]))), None)
        if finishing is not None:
            return _called(finishing, arguments_of(finishing, scene.answers))
        shell = next((tool for tool in scene.tools if takes_commands(tool) and self.calls(tool)), None)
        magic = _MAGIC.search(scene.text)
        if shell is not None and magic is not None:
            return _called(shell, with_command(shell, magic[0], scene.answers))
        return _FINAL


@dataclass(frozen=True, slots=True)
class _HarmlessGrammars(Grammars):
    """Texts that a grammar allows, with nothing in them that does harm."""

    scene: _Scene
    model: SimModel

    def _part(self, part: object) -> str:
        match part:
            case {"type": "or", "elements": [*parts]} if parts:
                texts = [self._part(one) for one in parts]
                wanted = finishes if self.model.ends(self.scene) else lambda name: self.model.calls({"name": name})
                named = ((_NAME.search(text), text) for text in texts)
                return next((text for name, text in named if name and wanted(name[1])), texts[0])
        return Grammars._part(self, part)

    def _example(self, schema: Json) -> str:
        return json.dumps(value_of(schema, self.scene.answers), ensure_ascii=False)


def _called(tool: Json, arguments: Json) -> str:
    """A call in a spelling that no serialiser would choose, and that says the same."""
    fields = ",  ".join(f'"{name}" :{json.dumps(value)}' for name, value in arguments.items())
    name = json.dumps(tool["name"], ensure_ascii=False)
    return f'<tool_call>\n{{ "name" :{name},  "arguments": {{ {fields} }} }}\n</tool_call>'


def sim_model(policy: Policy, turns: int, allowed: frozenset[str], *, stumbles: bool) -> SimModel:
    """The model of a simulated engine, with the vocabulary of the one that it has."""
    return SimModel(policy.vocabulary, policy.split_rate, turns, allowed, stumbles)
