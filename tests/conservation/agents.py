"""Agents of all manners, seeded at random: they branch, resample, retry, hang up, compact, and ask others."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count
from random import Random

import aiohttp

from gateway.demo.agent import TOOLS
from tests.conservation.balance import Outcome
from tests.edge.house import Answer, House, Json, user
from tests.edge.marks import keyed, retry
from tests.edge.streams import reading

_STOPS = ["comes down", "look", "e", " th", "one", "\n\n", "ing"]
_FAULTS = [
    *("cut", "error_event", "no_finish", "abort", "error_503", "null_logprob", "sentinel_logprob"),
    *("positive_logprob", "missing_logprob", "wrong_logprob_id", "extra_token", "garbage"),
]
_TOPICS = ["letters", "lighthouses", "migrating geese", "old bridges", "sourdough", "tides", "comets"]


_USUAL_CHUNKS = 15
"""Of a streamed answer."""


class Crowd:
    """What all agents have in common: how they ask, and what became of what they asked."""

    def __init__(self, house: House, token_delay_s: float) -> None:
        self.house = house
        self.outcomes: dict[str, Outcome] = {}
        """By the request ids that agents chose."""
        self.did: Counter[str] = Counter()
        """How often agents did what."""
        self.refused: Counter[str] = Counter()
        """What they were told instead of an answer."""
        self.usual_s = _USUAL_CHUNKS * 4 * token_delay_s
        """How long an answer takes, as far as is known by now."""
        self._numbers = count()

    async def call(self, session: str, messages: Sequence[Json], leaves_at: float | None, fields: Json) -> list[Json]:
        """One request; its answers, or none. A client that leaves does so at this part of a usual answer."""
        name = f"c{next(self._numbers)}"
        fields = fields | {"headers": {"x-request-id": name, **fields.get("headers", {})}}
        began_s = time.monotonic()
        try:
            if fields.get("stream"):
                answers = await self._read(session, messages, leaves_at, fields)
            else:
                async with asyncio.timeout(None if leaves_at is None else leaves_at * self.usual_s):
                    answers = await self._answers(session, messages, fields)
        except TimeoutError:
            return self._note(name, "hung_up")
        except aiohttp.ClientError:
            return self._note(name, "failed")
        if answers:
            self.usual_s += (time.monotonic() - began_s - self.usual_s) / 16
        return self._note(name, "answered" if answers else "failed", answers)

    def _note(self, name: str, outcome: Outcome, answers: Sequence[Json] = ()) -> list[Json]:
        self.outcomes[name] = outcome
        self.did[outcome] += 1
        return list(answers)

    async def _answers(self, session: str, messages: Sequence[Json], fields: Json) -> list[Json]:
        answer: Answer = await self.house.ask(session, messages, **fields)
        self.did["replayed"] += "x-gateway-replayed" in answer.headers
        if answer.status != 200:
            self.refused[answer.error["code"]] += 1
            return []
        return [choice["message"] for choice in answer.body["choices"]]

    async def _read(self, session: str, messages: Sequence[Json], leaves_at: float | None, fields: Json) -> list[Json]:
        most = None if leaves_at is None else int(leaves_at * _USUAL_CHUNKS)
        indices = set[int]()
        async with reading(self.house, session, messages, **fields) as (streamed, chunks):
            self.did["replayed"] += "x-gateway-replayed" in streamed.headers
            async for chunk in chunks:
                indices |= {choice["index"] for choice in chunk["choices"]}
                if len(streamed.chunks) == most:
                    raise TimeoutError
        if streamed.error is not None:
            self.refused[streamed.error["code"]] += 1
        return [streamed.choice(index)["message"] for index in sorted(indices)] if streamed.done else []


class Agent:
    """One agent, and its session."""

    def __init__(self, crowd: Crowd, session: str, seed: str) -> None:
        self._crowd, self._session, self._random = crowd, session, Random(seed)
        self._tools = TOOLS if self._chance(0.6) else []
        self._stop = self._random.sample(_STOPS, 2) if self._chance(0.3) else None
        self._messages: list[Json] = [{"role": "system", "content": f"You know much about {self._topic()}."}]

    def _chance(self, of: float) -> bool:
        return self._random.random() < of

    def _topic(self) -> str:
        return self._random.choice(_TOPICS)

    async def run(self, turns: int) -> None:
        """Take so many turns, and do some things between them."""
        for _ in range(turns):
            self._say_more()
            answers = await self._asked()
            if not answers:
                continue  # the next turn asks for more in the same breath
            self._messages = [*self._messages, self._random.choice(answers)]
            for deed, chance in ((self._branch, 0.15), (self._compact, 0.08), (self._delegate, 0.12)):
                if self._chance(chance):
                    await deed()
                    break

    def _say_more(self) -> None:
        calls = self._messages[-1].get("tool_calls") or ()
        results = [{"role": "tool", "tool_call_id": call["id"], "content": f"some {self._topic()}"} for call in calls]
        said = [user(f"What of {self._topic()} in {self._random.randrange(1700, 1900)}?")]
        self._messages = [*self._messages, *(results or said)]

    def _fields(self) -> Json:
        fields: Json = {"seed": self._random.randrange(1 << 20)}
        fields |= {"tools": self._tools} if self._tools else {}
        fields |= {"stop": self._stop} if self._stop else {}
        fields |= {"n": self._random.choice([2, 3])} if self._chance(0.12) else {}
        fields |= {"max_tokens": self._random.randrange(5, 50)} if self._chance(0.15) else {}
        fields |= {"stream": True} if self._chance(0.5) else {}
        fields |= {"headers": {"x-gateway-train": "false"}} if self._chance(0.06) else {}
        return fields

    async def _ask(self, fields: Json, *, leaves_at: float | None = None) -> list[Json]:
        if self._chance(0.04):
            kind = self._random.choice(_FAULTS)
            self._crowd.house.faults.inject(kind, after=self._random.randrange(1, 40))
            self._crowd.did["fault"] += 1
        return await self._crowd.call(self._session, self._messages, leaves_at, fields)

    async def _asked(self) -> list[Json]:
        """Ask for the next turn in one manner or another; what is gone on from."""
        fields, crowd = self._fields(), self._crowd
        marked, key = fields | {"headers": retry()}, self._random.randbytes(8).hex()
        match self._random.choices(["once", "left", "again", "retried", "keyed"], [50, 24, 10, 8, 8])[0]:
            case "left":
                answers = await self._ask(fields, leaves_at=1.2 * self._random.random())
                then = self._random.choice([marked, fields, None])
                return answers or ([] if then is None else await self._ask(then))
            case "again":
                crowd.did["resample"] += 1
                return [*await self._ask(fields), *await self._ask(fields)]
            case "retried":
                crowd.did["retry"] += 1
                first = asyncio.ensure_future(self._ask(fields, leaves_at=self._random.random()))
                await asyncio.sleep(self._random.random() * crowd.usual_s)
                return [*await self._ask(marked), *await first]
            case "keyed":
                crowd.did["keyed"] += 1
                both = fields | {"headers": keyed(key)}
                return [*await self._ask(both), *await self._ask(both)]
        return await self._ask(fields)

    async def _branch(self) -> None:
        """Go on from another history: something was edited, or the last turns are taken back."""
        self._crowd.did["branch"] += 1
        if self._chance(0.5):
            at = self._random.randrange(1, len(self._messages))
            edited = {**self._messages[at], "content": f"Never mind {self._topic()}."}
            self._messages = [*self._messages[:at], edited, *self._messages[at + 1 :]]
        else:
            said = [at for at, message in enumerate(self._messages) if message["role"] == "user"]
            self._messages = self._messages[: self._random.choice(said)]

    async def _compact(self) -> None:
        """Have all of it summed up, and begin again with that."""
        self._crowd.did["compaction"] += 1
        self._messages = [*self._messages, user("Sum all of this up in one paragraph.")]
        answers = await self._ask(self._fields())
        summary = answers[0].get("content") if answers else None
        self._messages = [self._messages[0], user(f"So far: {summary or 'nothing'}")]

    async def _delegate(self) -> None:
        """Another agent of the same session answers a question of its own."""
        self._crowd.did["sub-agent"] += 1
        other = Agent(self._crowd, self._session, self._random.randbytes(8).hex())
        await other.run(self._random.randrange(1, 3))
