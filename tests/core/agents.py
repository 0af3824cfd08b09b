"""Agents at work on one ledger, and the naive record that it is compared with.

Each move takes its choices from a `random.Random`, so that hypothesis and a seeded soak drive the same moves.
An assertion that fails is a broken invariant.
"""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from gateway.core.ledger import Ledger, PendingTurn
from gateway.core.prompt import build_prompt
from gateway.core.sampling import record
from gateway.core.turn import Prompt, Turn
from gateway.core.types import (
    Answer,
    Completion,
    FinishReason,
    Labels,
    Message,
    Origin,
    Sampling,
    ToolCall,
    TurnRequest,
    VersionSpan,
    float32s,
    token_ids,
)
from tests.core import clients
from tests.core.naive import Above, Found, Said, Sample, find, leading, left_out
from tests.core.sampled import HOW
from tests.core.scribe import Scribe

ENDS = ["stop", "stop", "stop", "length", "repetition", "cut"]
NOT_OURS = {
    "first_turn",
    "model_changed",
    "template_kwargs_changed",
    "tools_changed",
    "system_changed",
    "history_edited",
    "history_shortened",
    "foreign_assistant",
}
"""Why an assistant message was not recognised; which of these it is, only the ledger tells."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request on its way, and what the naive record said about it when it came."""

    asked: tuple[Said, ...]
    above: Above
    pending: PendingTurn
    found: Found


@dataclass
class Agents:
    """The moves, the steps that they are made of, and the comparison at each step."""

    ledger: Ledger = field(default_factory=Ledger)
    scribe: Scribe = field(default_factory=Scribe)
    samples: list[Sample] = field(default_factory=list)
    own_ids: dict[str, str] = field(default_factory=dict)
    varied: bool = False
    """Whether some turns are not to be trained, and some are sampled greedily."""
    next_id: int = 1 << 20
    calls: int = 0

    # Moves

    def start(self, rng: Random) -> None:
        """A new conversation, with or without instructions and examples."""
        asked = [clients.system(rng) for _ in range(rng.choice([0, 1, 1, 2]))]
        asked += [clients.user(rng) for _ in range(rng.choice([0, 1, 1, 2]))]
        if rng.randrange(4) == 0:
            asked += [clients.assistant(rng), clients.user(rng)]
        self.take(rng, asked or [clients.user(rng)], rng.choice([Above(), rng.choice(clients.ABOVE)]))

    def extend(self, rng: Random) -> None:
        """A faithful client goes on from any turn."""
        self.take(rng, *self.next(rng))

    def resample(self, rng: Random) -> None:
        """The same question again, and often the same answer."""
        if self.samples:
            again = rng.choice(self.samples)
            same = (
                {**again.answer, "calls": self.minted(again.answer["calls"])}
                if "calls" in again.answer
                else again.answer
            )
            self.take(rng, again.asked, again.above, answer=same if rng.randrange(3) else None)

    def rewrite(self, rng: Random) -> None:
        """A client replays what it was told in its own spelling."""
        asked, above = self.next(rng)
        ours = [said["role"] == "assistant" and rng.randrange(2) for said in asked]
        self.take(rng, [clients.replayed(rng, m) if o else m for o, m in zip(ours, asked, strict=True)], above)

    def falsify(self, rng: Random) -> None:
        """A history in which something else was said, or something is missing."""
        asked, above = self.next(rng)
        position = rng.randrange(len(asked))
        swap = [clients.falsified(rng, asked[position])] if rng.randrange(3) or len(asked) == 1 else []
        self.take(rng, [*asked[:position], *swap, *asked[position + 1 :]], above)

    def inject(self, rng: Random) -> None:
        """A message that we never saw, anywhere."""
        asked, above = self.next(rng)
        position = rng.choice([rng.randrange(len(asked) + 1), len(asked)])
        stranger = rng.choice([clients.assistant, clients.assistant, clients.system, clients.user])(rng)
        self.take(rng, [*asked[:position], stranger, *asked[position:]], above)

    def change_above(self, rng: Random) -> None:
        """The same conversation under other tools, another model, other arguments, another instruction."""
        asked, above = self.next(rng)
        if rng.randrange(3) == 0:
            self.take(rng, [clients.system(rng), *asked[leading(asked) :]], above)
        else:
            self.take(rng, asked, rng.choice(clients.ABOVE))

    def misrender(self, rng: Random) -> None:
        """A renderer that declines to bridge, loses ids, or adds nothing."""
        self.scribe.flaw = rng.choice(["declines", "drops", "drops all", "silent"])
        self.take(rng, *self.next(rng))

    def abort(self, rng: Random) -> None:
        """A client that leaves, or an engine that dies, after something was sampled."""
        self.take(rng, *self.next(rng), end="abort")

    def abandon(self, rng: Random) -> None:
        """A call that fails leaves no trace, at whatever step before its record it fails."""
        before = pickle.dumps(self.ledger)
        call = self.prepare(*self.next(rng))
        if rng.randrange(2):
            prompt = self.build(call)
            if rng.randrange(2):
                self.seal(rng, call, prompt, self.answer(rng), "stop")
        assert before == pickle.dumps(self.ledger)

    def crowd(self, rng: Random) -> None:
        """Several calls at once, which end in another order than they began."""
        calls = [self.prepare(*self.next(rng)) for _ in range(rng.choice([2, 2, 3, 4]))]
        early = [self.build(call) if rng.randrange(2) else None for call in calls]
        for position in rng.sample(range(len(calls)), len(calls)):
            prompt = early[position] or self.build(calls[position])
            end = rng.choice([*ENDS, "abort"])
            self.commit(calls[position], *self.seal(rng, calls[position], prompt, self.answer(rng), end))

    # Steps

    def next(self, rng: Random) -> tuple[Sequence[Said], Above]:
        """What a faithful client asks after any turn, more often after a late one."""
        if not self.samples:
            return [clients.user(rng)], Above()
        base = rng.choice([self.samples[-1], rng.choice(self.samples)])
        return [*base.asked, base.answer, *clients.replies(rng, base.answer)], base.above

    def take(
        self, rng: Random, asked: Sequence[Said], above: Above, *, answer: Said | None = None, end: str = ""
    ) -> None:
        """One turn from request to record."""
        call = self.prepare(asked, above)
        prompt = self.build(call)
        self.commit(call, *self.seal(rng, call, prompt, answer or self.answer(rng), end or rng.choice(ENDS)))

    def prepare(self, asked: Sequence[Said], above: Above) -> Call:
        """The ledger and the naive record find the same parent, and count the same differences."""
        messages = tuple(map(message, asked))
        labels = Labels(train=not self.varied or len(self.samples) % 5 != 3)
        request = TurnRequest(
            messages, model=above.model, tools=above.tools, template_kwargs=above.kwargs or {}, labels=labels
        )
        pending, found = self.ledger.prepare(request), find(self.samples, asked, above)
        assert (found.sample and found.sample.id) == (pending.parent and pending.parent.id)
        assert found.differences == {kind: found.messages for kind, found in pending.differences.items()}
        return Call(tuple(asked), above, pending, found)

    def build(self, call: Call) -> Prompt:
        """The prompt is the one that follows from the naive record, id for id."""
        prompt = build_prompt(self.scribe, call.pending)
        reasons = self.reasons(call)
        assert (prompt.reason in reasons) if reasons else (prompt.reason is None)
        assert prompt.base is (None if reasons else call.pending.parent)
        assert prompt.ids == (self.history(call) if reasons else self.extension(call))
        self.scribe.flaw = None
        return prompt

    def reasons(self, call: Call) -> set[str]:
        """Why the prompt must be rendered; several where only the ledger can tell; none where it must be bridged."""
        sample, new = call.found.sample, call.found.new
        if any(said["role"] == "assistant" for said in new):
            return NOT_OURS
        if sample is None:
            return {"history_shortened" if left_out(self.samples, call.asked, call.above) else "first_turn"}
        if not new:
            return {"no_new_messages"}
        if sample.end == "cut":
            return {"stop_cut"}
        if self.scribe.flaw == "declines":
            return {"truncated_parent" if sample.end == "length" else "bridge_declined"}
        return {"bridge_unproven"} if self.scribe.flaw else set()

    def history(self, call: Call) -> list[int]:
        """The ids of all that was said: our own answers as they were recorded, calls by the model's own ids."""
        sample = call.found.sample
        above = call.asked[: leading(call.asked)] if sample else ()
        known = [said for said, _ in sample.path] if sample else []
        said = [message(m, self.own_ids.get) for m in (*above, *known, *call.found.new)]
        return self.scribe.write(said, call.above.tools)

    def extension(self, call: Call) -> list[int]:
        """The ids of the parent and, after them, of what is new."""
        assert call.found.sample is not None
        new = [message(said, self.own_ids.get) for said in call.found.new]
        return [*call.found.sample.whole, *self.scribe.write_more(new)]

    def seal(self, rng: Random, call: Call, prompt: Prompt, answer: Said, end: str) -> tuple[Sample, Turn]:
        """A completion of ids that were never sampled before, so that each can be told wherever it turns up."""
        ids = token_ids(range(self.next_id, self.next_id + rng.choice([1, 1, 2, 3])))
        self.next_id += len(ids)
        logprobs = float32s([-(i % 97) / 8 for i in ids])
        cuts = [0, *sorted(rng.sample(range(1, len(ids)), rng.randrange(len(ids)))), len(ids)]
        spans = tuple(VersionSpan(f"v{start}", start, stop) for start, stop in pairwise(cuts))
        completion = Completion(ids, logprobs, FinishReason("stop" if end == "cut" else end), spans)
        told = Answer(message(answer, sampled=True), ("stop_cut",) if end == "cut" else ())
        turn = call.pending.seal(f"t{self.next_id}", prompt, completion, told, Origin("engine", 0), **self.how())
        sample = call.found.sample
        new = call.found.new if sample else call.asked[leading(call.asked) :]
        path = (*(sample.path if sample else ()), *((said, False) for said in new), (answer, True))
        whole = token_ids(prompt.ids) + ids
        return Sample(turn.id, call.above, call.asked, path, answer, whole, len(prompt.ids), logprobs, end), turn

    def how(self) -> dict[str, Any]:
        """How the next turn is sampled."""
        greedy = self.varied and len(self.samples) % 7 == 5
        return HOW | {"sampling": record(Sampling(temperature=0.0), max_tokens=9)} if greedy else HOW

    def commit(self, call: Call, sample: Sample, turn: Turn) -> None:
        """The one mutation, on both sides."""
        call.pending.commit(turn)
        self.samples.append(sample)
        if sample.complete:
            self.own_ids |= {c["id"]: c["own_id"] for c in sample.answer.get("calls", ()) if c["own_id"]}

    def answer(self, rng: Random) -> Said:
        """What the model says."""
        calls = [{"name": "ls", "arguments": rng.choice(clients.ARGUMENTS)} for _ in range(rng.choice([0, 0, 1, 1, 2]))]
        return clients.assistant(rng, calls=self.minted(calls))

    def minted(self, calls: Sequence[Said]) -> list[Said]:
        """The calls under ids that were never used; every other one also has an id of the model's own."""
        self.calls += len(calls)
        numbers = range(self.calls - len(calls), self.calls)
        own = [f"own_{number}" if number % 2 else None for number in numbers]
        return [{**c, "id": f"call_{n}", "own_id": o} for c, n, o in zip(calls, numbers, own, strict=True)]


def message(
    said: Said, own_id: Callable[[str, str], str] = lambda _, known: known, *, sampled: bool = False
) -> Message:
    """A message in the ledger's type; its call ids are looked up with `own_id`."""
    calls = [
        ToolCall(own_id(c["id"], c["id"]), c["name"], c["arguments"], own_id=c["own_id"] if sampled else None)
        for c in said.get("calls", ())
    ]
    answers = said.get("answers")
    return Message(
        said["role"],
        said["content"],
        reasoning=said.get("reasoning"),
        tool_calls=tuple(calls),
        tool_call_id=own_id(answers, answers) if answers else answers,
    )
