"""What the simulated model says to the agents: thoughts, calls in a spelling of its own, white space, letters beyond ASCII."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from gateway.sim.policy import Policy

END = "<|im_end|>"
_PROBE = f"user\n?{END}"
"""What the gateway asks on its own, and no agent does."""
_THOUGHT = "  I should think — first.\n\nThen act. "

ANSWERS = ("\n  Sonne in Zürich ☃.  \n", "Rain in both.", "De rien.\n\n")
"""What the user sees, question by question."""


@dataclass(frozen=True, slots=True)
class ScriptedPolicy(Policy):
    """A model that gives these answers in turn, whatever it is asked, split as no tokenizer would."""

    answers: Iterator[str] = field(kw_only=True)

    def say(self, prompt_ids: Sequence[int], seed: int) -> list[int]:
        """The next answer; to a probe of the gateway's, nothing much."""
        text = END if _PROBE in self.vocabulary.decode(prompt_ids) else next(self.answers)
        return self.vocabulary.spell(text, self.split_rate, Random(f"{text}{seed}"))


def says(content: str, *calls: str, reasoning: str | None = _THOUGHT) -> str:
    """One answer in the words of the demo's chat template, which are Qwen3's."""
    thought = "" if reasoning is None else f"<think>\n{reasoning}\n</think>\n\n"
    return (
        thought + content + "".join(_called(call, first=not (nth or content)) for nth, call in enumerate(calls)) + END
    )


def _called(call: str, *, first: bool) -> str:
    return f"{'' if first else chr(10)}<tool_call>\n{call}\n</tool_call>"


def call(name: str, arguments: str) -> str:
    """A tool call, its arguments as they stand."""
    return f'{{ "name" :"{name}",  "arguments": {arguments} }}'


WEATHER = (
    says("\n\n  Let me look — café.  \n", call("weather", '{ "days" : 3.0 ,"city" : "Z\\u00fcrich" }')),
    says(ANSWERS[0]),
    says("", call("weather", '{"city":"Bern","days":1e0}'), call("weather", '{"days":2,   "city":"Genève"}')),
    says(ANSWERS[1], reasoning=None),
    says(ANSWERS[2]),
)
"""The answers to the questions of ``agents/task.py``, and the calls in between."""

SUBMISSION = "café ☃\n"
_BROKEN = f'{{"name": "bash", "arguments": {{"command": "ls"{END}'
SHELL = (
    says(" First, write it.\n", call("bash", '{ "command" : "printf \'caf\\u00e9 ☃\\n\' > file" }')),
    f"<think>\nLook.\n</think>\n\n<tool_call>\n{_BROKEN}",
    says("\nAgain: ", call("bash", '{"command":"ls"}')),
    says("", call("bash", '{"command":"cat file"}'), call("bash", '{"command":"wc -l < file"}')),
    says("Done.  ", call("bash", '{"command" : "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat file"}')),
)
"""The answers to an agent with a shell; the second holds a call that is cut off."""
MALFORMED = 1
"""Which one that is."""
