"""The model that harnesses are examined with: what it says, and that it comes to an end."""

import json
import re

import pytest

from gateway.doctor.harmless import COMMANDS
from gateway.doctor.sim_model import SimModel
from gateway.render.demo import FOLDER
from gateway.sim.chat_template import ChatTemplate
from gateway.sim.vocabulary import Vocabulary

TEXT = {"type": "string"}
CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)


def tool(name, **properties):
    """A tool that requires all of its arguments."""
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


BASH, WEATHER, FINISH = tool("bash", command=TEXT), tool("weather", city=TEXT), tool("finish", summary=TEXT)


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary(FOLDER)


@pytest.fixture
def model(vocabulary):
    """One that takes four turns."""
    return SimModel(vocabulary)


class Talk:
    """A conversation with a model, as a template writes it."""

    def __init__(self, model, tools, system="Do as you are told."):
        self.model, self.tools = model, tools
        self.messages = [{"role": "system", "content": system}]
        self.template = ChatTemplate.of(FOLDER)

    def prompt(self):
        assert self.template is not None
        text = self.template.apply(self.messages, self.tools, {"add_generation_prompt": True})
        return self.model.vocabulary.encode(text)

    def ask(self, question):
        """The answer as text, which is then part of the conversation."""
        self.messages.append({"role": "user", "content": question})
        return self.go_on()

    def go_on(self):
        said = self.model.vocabulary.decode(self.model.say(self.prompt(), 0))
        assert said.endswith("<|im_end|>")
        content = said.removesuffix("<|im_end|>").partition("</think>")[2].strip()
        self.messages.append({"role": "assistant", "content": content})
        return said

    def result(self):
        """A tool has answered."""
        self.messages.append({"role": "tool", "content": "ok"})
        return self.go_on()


def calls(said):
    """The tool calls of an answer: names and arguments."""
    read = [json.loads(body) for body in CALL.findall(said)]
    return [(call["name"], call["arguments"]) for call in read]


def test_it_calls_tools_until_its_turns_are_over_and_then_answers(model):
    """Each time with a thought; for the next question all begins again."""
    talk = Talk(model, [WEATHER])
    first = [talk.ask("Bern?"), talk.result(), talk.result(), talk.result()]
    second = [talk.ask("Chur?"), talk.result(), talk.result(), talk.result()]

    assert [bool(calls(said)) for said in first] == [bool(calls(said)) for said in second] == [True] * 3 + [False]
    assert all(said.startswith("<think>\n") for said in [*first, *second])


def test_it_takes_turns_with_the_tools_and_once_calls_two_at_a_time(model):
    talk = Talk(model, [WEATHER, BASH])
    said = [talk.ask("go"), talk.result(), talk.result()]

    assert [[name for name, _ in calls(one)] for one in said] == [["weather"], ["bash"], ["weather", "weather"]]


def test_without_tools_it_answers_at_once(model):
    assert calls(Talk(model, []).ask("hello")) == []


def test_an_agent_without_tools_gets_commands_in_the_fences_of_its_instructions(model):
    """What its shell says comes as a user's word; the last command is the one that ends it."""
    talk = Talk(model, [], "Write one command:\n```my_bash\nls\n```\nTo end: `echo TASK_IS_ALL_DONE`.")
    said = [talk.ask("go"), talk.ask("out: 0"), talk.ask("out: 0"), talk.ask("out: 0")]
    commands = [re.findall(r"```my_bash\n(.*?)\n```", one) for one in said]

    assert commands == [[command] for command in (*COMMANDS, "echo TASK_IS_ALL_DONE")]


def test_it_ends_an_agent_by_the_tool_that_is_there_for_it(model):
    talk = Talk(model, [FINISH, WEATHER])
    said = [talk.ask("go"), talk.result(), talk.result(), talk.result()]

    assert [name for one in said[:3] for name, _ in calls(one)] == ["weather"] * 4
    assert [name for name, _ in calls(said[3])] == ["finish"]


def test_it_ends_an_agent_at_a_shell_by_the_words_that_its_instructions_have_for_it(model):
    """Word for word, and nothing beside; before, it says what does nothing."""
    talk = Talk(model, [BASH], "Work. To end, run `echo TASK_IS_ALL_DONE` and nothing else.")
    said = [talk.ask("go"), talk.result(), talk.result(), talk.result()]

    assert {arguments["command"] for one in said[:3] for _, arguments in calls(one)} <= set(COMMANDS)
    assert calls(said[3]) == [("bash", {"command": "echo TASK_IS_ALL_DONE"})]


def test_a_shell_without_such_words_is_told_that_all_is_done(model):
    """By an answer without a call. A command that would do something is none of those words."""
    talk = Talk(model, [BASH], "Work. To end, run `echo DONE; rm -r /` or `reboot`.")
    said = [talk.ask("go"), talk.result(), talk.result(), talk.result()]

    assert calls(said[3]) == []


def test_tools_that_change_something_are_not_called(model):
    assert calls(Talk(model, [tool("delete_city", city=TEXT)]).ask("go")) == []


def test_a_harness_that_asks_on_and_on_gets_an_answer_without_calls(model):
    """Which ends most; otherwise it would go on until its time is over."""
    talk = Talk(model, [BASH])
    said = talk.ask("go")
    for _ in range(60):
        said = talk.ask("You must call a tool.")

    assert calls(said) == []


def test_a_harness_that_forgets_everything_comes_to_an_end(model):
    """Its history says of itself that it has just begun."""
    talks = [Talk(model, [BASH]) for _ in range(30)]
    said = [talk.ask("go") for talk in talks]

    assert calls(said[0]) != []
    assert calls(said[-1]) == []


def test_it_can_be_told_to_stumble_once(vocabulary):
    """Its second answer holds half a call."""
    talk = Talk(SimModel(vocabulary, stumbles=True), [BASH])
    said = [talk.ask("go"), talk.result(), talk.ask("What?"), talk.result()]

    assert ["<tool_call>" in one and "</tool_call>" not in one for one in said] == [False, True, False, False]


def test_a_forced_call_is_of_a_harmless_tool_with_harmless_arguments(model):
    """Whatever the grammar offers besides; and of the tool that ends the agent, when it is time."""
    talk = Talk(model, [tool("delete_city", city=TEXT), BASH, FINISH])

    def forced(name, schema):
        opener = {"type": "const_string", "value": f'<tool_call>\n{{"name": "{name}", "arguments": '}
        body = {"type": "json_schema", "json_schema": schema}
        return {"type": "sequence", "elements": [opener, body, {"type": "const_string", "value": "}\n</tool_call>"}]}

    offered = [forced(one["function"]["name"], one["function"]["parameters"]) for one in talk.tools]
    asked = {"structural_tag": json.dumps({"type": "structural_tag", "format": {"type": "or", "elements": offered}})}

    def conforming():
        return calls(model.vocabulary.decode(model.conform(talk.prompt(), 0, asked)))

    talk.messages.append({"role": "user", "content": "go"})
    assert conforming() == [("bash", {"command": COMMANDS[0]})]
    talk.messages += [{"role": "assistant", "content": "x"}, {"role": "tool", "content": "ok"}] * 3
    assert [name for name, _ in conforming()] == ["finish"]
