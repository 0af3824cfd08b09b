"""What clients that fork every turn cost in memory: ``python -m bench.forks --turns 500``.

Three clients talk to the demo model, through the ledger and its renderer: one moves a reminder from message to
message, one offers its tools in every other turn, one changes its first message. Each prompt is rendered in full.
Prints, for half of the turns and for all, what the session holds and how far an export rises above it; what is held
must double, not quadruple, and an export must stay near its largest row. Exit code 1 when it does not.
"""

import argparse
import gc
import sys
import tracemalloc
from collections.abc import Callable

from gateway.core.ledger import Ledger
from gateway.core.prompt import build_prompt
from gateway.core.rows import Rollout
from gateway.core.types import (
    Answer,
    Completion,
    FinishReason,
    Message,
    Origin,
    ToolCall,
    TurnRequest,
    VersionSpan,
    float32s,
    token_ids,
)
from gateway.render.demo import MODEL_NAME
from gateway.render.registry import load_tokenizer, renderers_for
from gateway.render.translator import Translator
from gateway.wire.pages import encode_lines
from gateway.wire.rows import row_object
from tests.core.present import session_now
from tests.core.sampled import HOW

TOOLS = ({"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}},)
WORDS = " and then it looked into the folder, found another one in it, and looked there as well, for a while"


class Agent:
    """A ledger, a renderer, and turns whose answers are tokenized as they stand."""

    def __init__(self, translator: Translator) -> None:
        self.ledger = Ledger()
        self._translator = translator

    def answer(self, *messages: Message, tools: bool = False, calls: tuple[ToolCall, ...] = ()) -> Message:
        """Take a turn."""
        number = len(self.ledger.turns)
        pending = self.ledger.prepare(TurnRequest(messages, tools=TOOLS if tools else ()))
        prompt = build_prompt(self._translator, pending)
        text = f"Step {number}{WORDS * 2}"
        ids = token_ids(self._translator.tokenizer.encode(text, add_special_tokens=False))
        span = VersionSpan("1", 0, len(ids))
        completion = Completion(ids, float32s([-1.0] * len(ids)), FinishReason.STOP, (span,))
        answer = Message("assistant", text, tool_calls=calls)
        turn = pending.seal(f"t{number}", prompt, completion, Answer(answer), Origin("e", 0), **HOW)
        pending.commit(turn)
        return Message("assistant", "".join(list(text)), tool_calls=calls)  # as a client has it: a copy


def reminding(agent: Agent, turns: int) -> None:
    """A client whose last message ends with a reminder that earlier ones have lost."""
    history: list[Message] = []
    for number in range(turns):
        question = f"Question {number}{WORDS}"
        answer = agent.answer(*map(_copied, history), Message("user", question + " Remember the format."))
        history += [Message("user", question), answer]


def alternating(agent: Agent, turns: int) -> None:
    """A client that offers its tools in every other turn."""
    history = [Message("user", f"Go{WORDS}")]
    for number in range(turns):
        if number % 2:
            history += [agent.answer(*map(_copied, history)), Message("user", f"Question {number}{WORDS}")]
        else:
            call = ToolCall(f"call_{number}", "look", "{}")
            history += [agent.answer(*map(_copied, history), tools=True, calls=(call,))]
            history += [Message("tool", f"Result {number}{WORDS}", tool_call_id=call.id)]


def moving(agent: Agent, turns: int) -> None:
    """A client whose first message is long, and another one every turn: a map of the files, say."""
    history: list[Message] = []
    for number in range(turns):
        first = Message("user", f"File {number}{WORDS * 8}" + "".join(f", {number * at}" for at in range(200)))
        question = Message("user", f"Question {number}{WORDS}")
        history += [question, agent.answer(first, *map(_copied, history), question)]


def _copied(message: Message) -> Message:
    """The message as the next request brings it: nothing of it is shared with the one before."""
    return Message(
        message.role, "".join(list(message.content)), tool_calls=message.tool_calls, tool_call_id=message.tool_call_id
    )


def measured(translator: Translator, client: Callable[[Agent, int], None], turns: int) -> tuple[int, int, int]:
    """Bytes that a session holds, bytes that its export holds beside them at most, and ids of its largest row."""
    agent = Agent(translator)
    gc.collect()
    tracemalloc.start()
    client(agent, turns)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    largest, rendered = 0, sum(turn.how == "rendered" for turn in agent.ledger.turns)
    assert rendered > turns * 0.9, f"only {rendered} of {turns} prompts were rendered"
    for piece in encode_lines(row_object(row) for row in Rollout([session_now(agent.ledger)])):
        assert piece
    largest = max(turn.sequence.length for turn in agent.ledger.turns)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held, peak - held, largest


def main() -> int:
    """Measure all clients at half of the turns and at all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=500)
    turns = parser.parse_args().turns
    tokenizer = load_tokenizer(MODEL_NAME, MODEL_NAME)
    renderers, _ = renderers_for("auto", tokenizer, None, retention="all", bridgeless_ok=False)
    grown = 0.0
    for client in (reminding, alternating, moving):
        half, whole = (measured(renderers.get({}), client, count) for count in (turns // 2, turns))
        grown = max(grown, whole[0] / half[0])
        for count, (held, export, largest) in ((turns // 2, half), (turns, whole)):
            print(
                f"{client.__name__}: turns={count} held_kb={held // 1000} largest_row_ids={largest} "
                f"export_kb={export // 1000} export_bytes_per_id_of_it={export / largest:.0f}"
            )
        print(f"{client.__name__}: held x{whole[0] / half[0]:.2f}")
    return int(grown > 2.5)


if __name__ == "__main__":
    sys.exit(main())
