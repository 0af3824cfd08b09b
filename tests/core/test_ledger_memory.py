"""What a session keeps is linear in what was sampled and said, also when nothing can be extended."""

from collections.abc import Callable
from itertools import count

import pytest

from gateway.core.turn import Node
from gateway.core.types import Message, ToolCall
from tests.core.toy import Talk, assistant, tool, user

TOOLS = ({"type": "function", "function": {"name": "ls"}},)
TEXT = " of a text that is as long as what people usually say to their agents, and then a little longer"


def reminding(talk: Talk, turns: int) -> None:
    """A client that ends its last message with a reminder, and takes it away again in the next turn."""
    history: list[Message] = []
    for number in range(turns):
        question = f"question {number}{TEXT}"
        history.append(talk.take(*history, user(question + " Remember the format.")).message)
        history[-1:] = [user(question), history[-1]]


def alternating(talk: Talk, turns: int) -> None:
    """A client that offers its tools in every other turn."""
    history: list[Message] = [user("go" + TEXT)]
    for number in range(turns):
        if number % 2:
            history += [talk.take(*history).message, user(f"question {number}{TEXT}")]
        else:
            call = ToolCall(f"call_{number}", "ls", "{}")
            answer = talk.take(*history, tools=TOOLS, answer=assistant(f"so {number}{TEXT}", call)).message
            history += [answer, tool(f"result {number}{TEXT}", call.id)]


def clocked(talk: Talk, turns: int) -> None:
    """A client whose system prompt tells the time."""
    history: list[Message] = [user("go" + TEXT)]
    for number in range(turns):
        system = Message("system", f"It is {number}.{TEXT * 2}")
        history += [talk.take(system, *history).message, user(f"question {number}{TEXT}")]


def rewriting(talk: Talk, turns: int) -> None:
    """A client whose system prompt is long, and another one every turn."""
    history: list[Message] = [user("go" + TEXT)]
    for number in range(turns):
        system = Message("system", "".join(chr(0x4E00 + (number * 4801 + i) % 20_000) for i in range(4800)))
        history += [talk.take(system, *history).message, user(f"question {number}{TEXT}")]


def kept(talk: Talk) -> tuple[int, int]:
    """How many prompt ids and how many messages a session keeps."""
    completions = {id(turn.completion.ids) for turn in talk.ledger.turns}
    own = [
        len(piece)
        for turn in talk.ledger.turns
        for piece in turn.prompt.pieces
        if not isinstance(piece, tuple) and id(piece) not in completions
    ]
    nodes = count()
    todo: list[Node] = [talk.ledger._origin]
    while todo:
        node = todo.pop()
        todo += [child for children in node.children.values() for child in children]
        todo += [turn.node for turn in node.answers]
        next(nodes)
    return sum(own), next(nodes)


@pytest.mark.parametrize("client", [reminding, alternating, clocked, rewriting])
def test_a_client_that_forks_every_turn_costs_what_is_said(client: Callable[[Talk, int], None]):
    """Twice the turns are twice the ids and twice the messages, though each prompt is rendered in full."""
    short, long = Talk(), Talk()
    client(short, 30)
    client(long, 60)

    for few, many in zip(kept(short), kept(long), strict=True):
        assert many < 2.1 * few
    assert sum(turn.how == "rendered" for turn in long.ledger.turns) >= 50
    said = [message.content for turn in long.ledger.turns for message in turn.new_messages()[-2:]]
    above = [turn.root.system for turn in long.ledger.turns]
    assert kept(long)[0] < 3 * sum(map(len, {*said, *above}))
    for turn in long.ledger.turns[-2:]:
        assert turn.prompt_length == len(turn.prompt_ids())
