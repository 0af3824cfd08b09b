"""What a session keeps is linear in what was sampled and said, also when nothing can be extended."""

from collections.abc import Callable

import pytest

from gateway.core.rope import Rope
from gateway.core.types import Message, ToolCall
from tests.core.toy import Talk, assistant, tool, user

TOOLS = ({"type": "function", "function": {"name": "ls"}},)
TEXT = " and what is said with it"


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


def moving(talk: Talk, turns: int) -> None:
    """A client whose first message tells the time."""
    history: list[Message] = []
    for number in range(turns):
        question = user(f"question {number}{TEXT}")
        history += [question, talk.take(user(f"It is {number}.{TEXT}"), *history, question).message]


def inserting(talk: Talk, turns: int) -> None:
    """A client whose second message is another one every turn."""
    history: list[Message] = []
    for number in range(turns):
        question = user(f"question {number}{TEXT}")
        clock = [user("instructions"), user(f"It is {number}.{TEXT}")]
        history += [question, talk.take(*clock, *history, question).message]


def taking_turns(talk: Talk, turns: int) -> None:
    """Two clients in one session, each of which changes its first message every turn."""
    histories: list[list[Message]] = [[], []]
    for number in range(turns):
        history = histories[number % 2]
        question = user(f"question {number}{TEXT}")
        history += [question, talk.take(user(f"Client {number}.{TEXT}"), *history, question).message]


def sliding(talk: Talk, turns: int) -> None:
    """A client that forgets all but its last messages."""
    history: list[Message] = []
    for number in range(turns):
        history += [user(f"question {number}{TEXT}")]
        history += [talk.take(*history[-81:]).message]


def kept(talk: Talk) -> tuple[int, int]:
    """How many prompt ids, and how many messages and numbers of messages, a session keeps."""
    tree, prompts, numbers = talk.ledger.tree, 0, 0
    seen: set[int] = {id(turn.completion.ids) for turn in talk.ledger.turns}
    for turn in talk.ledger.turns:
        prompts += own(turn.prompt, seen)
    todo = [tree.origin]
    while todo:
        node = todo.pop()
        todo += [*node.children.values(), *(turn.node for turn in node.answers)]
        numbers += 1 + (own(node.run, seen) if isinstance(node.run, Rope) else len(node.run))
    return prompts, numbers + len(tree.messages)


def own(run: Rope, seen: set[int]) -> int:
    """The ids and slices that a rope and those below it keep, save those that were `seen` before."""
    found, at = 0, run
    while at.base is not None and id(at) not in seen:
        seen.add(id(at))
        found += sum(1 if isinstance(piece, tuple) else len(piece) for piece in at.pieces if id(piece) not in seen)
        at = at.base
    return found + (at.length if id(at) not in seen else 0)


CLIENTS = [reminding, alternating, clocked, rewriting, moving, inserting, taking_turns, sliding]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_forks_every_turn_costs_what_is_said(client: Callable[[Talk, int], None]):
    """Twice the turns are twice of everything, though each prompt is rendered in full."""
    short, long = Talk(), Talk()
    client(short, 60)
    client(long, 120)

    for few, many in zip(kept(short), kept(long), strict=True):
        assert many < 2.3 * few
    assert sum(turn.how == "rendered" for turn in long.ledger.turns) >= 50
    for turn in long.ledger.turns[-2:]:
        assert turn.prompt_length == len(turn.prompt_ids())
