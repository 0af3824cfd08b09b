"""What it costs to find a long history again, beside what it costs to read it: ``python -m bench.matching``.

One session of 2,000 turns and 5,000 messages, half of the turns with a tool call, is sent once more with a new
message. Prints CPU time of ``orjson.loads`` of that body and of `Ledger.prepare`, and their ratio, for several
ways in which clients replay what they were told. Each is the best of several rounds, taken in turn. Exit code 1
when a ratio is above 4.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import orjson

from gateway.core.ledger import Ledger
from gateway.core.prompt import build_prompt
from gateway.core.types import (
    Answer,
    Completion,
    FinishReason,
    Message,
    Messages,
    Origin,
    ToolCall,
    Tools,
    TurnRequest,
    VersionSpan,
    float32s,
    token_ids,
)
from gateway.wire import chat
from tests.core.sampled import HOW

TURNS, MESSAGES = 2000, 5000
WORDS = "the file says that nothing was found in the folder where it was looked for, so look in another one. "


class Counting:
    """A renderer without a tokenizer: what is matched, not what is rendered, is measured here."""

    def render(self, messages: Messages, tools: Tools) -> list[int]:
        """An id, and another."""
        return [1 + len(messages), len(tools)]

    def bridge(
        self, prompt_ids: list[int], sampled: list[int], new: Messages, tools: Tools, history: Messages
    ) -> list[int]:
        """One id more."""
        return [*prompt_ids, *sampled, len(new) + len(tools) + len(history)]


def faithful(answer: Message) -> Message:
    """A client that sends back what it was told."""
    return answer


def without_reasoning(answer: Message) -> Message:
    """Most clients."""
    return replace(answer, reasoning=None)


def reserialised(answer: Message) -> Message:
    """A client that also parses arguments, and writes them anew."""
    calls = [replace(call, arguments=json.dumps(json.loads(call.arguments), indent=1)) for call in answer.tool_calls]
    return replace(answer, reasoning=None, tool_calls=tuple(calls))


def thoughtful(answer: Message) -> Message:
    """A client that sends reasoning with the last answer only, and writes all arguments anew."""
    return replace(reserialised(answer), reasoning=answer.reasoning)


def session(replay: Callable[[Message], Message]) -> tuple[Ledger, list[Message]]:
    """A ledger of `TURNS` turns, and its history of `MESSAGES` messages as the client has it, a new one at its end."""
    ledger = Ledger()
    history = [Message("user", f"{number}: {WORDS}") for number in range(MESSAGES - 2 * TURNS)]
    for number in range(TURNS):
        arguments = f'{{"path":"/srv/{number}", "depth" : {number % 7}}}'
        calls = (ToolCall(f"call_{number:024}", "list_folder", arguments),) if number % 2 else ()
        answer = Message("assistant", WORDS[: number % 80], reasoning=WORDS, tool_calls=calls)
        span = VersionSpan("1", 0, 20)
        completion = Completion(token_ids([5] * 20), float32s([-1.0] * 20), FinishReason.STOP, (span,))
        pending = ledger.prepare(TurnRequest(tuple(history)))
        prompt = build_prompt(Counting(), pending)
        pending.commit(pending.seal(str(number), prompt, completion, Answer(answer), Origin("e", 0), **HOW))
        result = Message("tool", f"{number}: {WORDS}", tool_call_id=calls[0].id) if calls else None
        if replay is thoughtful and number:
            history[-2] = replace(history[-2], reasoning=None)
        history += [replay(answer), result or Message("user", f"{number}: {WORDS}")]
    return ledger, history


def written(message: Message) -> dict[str, object]:
    """A message as a client sends it."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    fields = {"reasoning_content": message.reasoning, "tool_calls": calls, "tool_call_id": message.tool_call_id}
    given = {name: value for name, value in fields.items() if value}
    return {"role": message.role, "content": message.content, **given}


def cpu_ms(work: Callable[[], object]) -> float:
    """CPU time of one call."""
    started_ns = time.process_time_ns()
    work()
    return (time.process_time_ns() - started_ns) / 1e6


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds, worst = parser.parse_args().rounds, 0.0
    for replay in (faithful, without_reasoning, reserialised, thoughtful):
        ledger, history = session(replay)
        body = orjson.dumps({"model": "m", "messages": list(map(written, history))})
        request = replace(chat.decode(body), model=None)
        pending = ledger.prepare(request)
        assert pending.parent is ledger.turns[-1]
        loads, decode, prepare = [], [], []
        for _ in range(rounds):
            loads.append(cpu_ms(partial(orjson.loads, body)))
            decode.append(cpu_ms(partial(chat.decode, body)))
            prepare.append(cpu_ms(partial(ledger.prepare, request)))
        worst = max(worst, min(prepare) / min(loads))
        print(
            f"{replay.__name__}: messages={len(history)} turns={len(ledger.turns)} body_kb={len(body) // 1000} "
            f"loads_ms={min(loads):.2f} prepare_ms={min(prepare):.2f} ratio={min(prepare) / min(loads):.2f} "
            f"decode_ms={min(decode):.2f} differences={ {kind: d.messages for kind, d in pending.differences.items()} }"
        )

    return int(worst > 4)


if __name__ == "__main__":
    sys.exit(main())
