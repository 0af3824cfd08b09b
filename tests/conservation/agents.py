"""Agents of all manners, seeded at random: they branch, resample, retry, hang up, compact, and ask others."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from random import Random

import aiohttp

from gateway.demo.agent import TOOLS
from tests.conservation.balance import Outcome
from tests.edge.house import Answer, House, Json, user
from tests.edge.marks import keyed, retry
from tests.edge.streams import stream

_STOPS = ["comes down", "look", "e", " th", "one", "\n\n", "ing"]
_FAULTS = [
    *("cut", "error_event", "no_finish", "abort", "error_503", "null_logprob", "sentinel_logprob"),
    *("positive_logprob", "missing_logprob", "wrong_logprob_id", "extra_token", "garbage"),
]
_TOPICS = ["letters", "lighthouses", "migrating geese", "old bridges", "sourdough", "tides", "comets"]


class Crowd:
    """What all agents have in common: how they ask, and what became of what they asked."""

    def __init__(self, house: House, token_delay_s: float) -> None:
        self.house = house
        self.outcomes: dict[str, Outcome] = {}
        """By the request ids that agents chose."""
        self.did: Counter[str] = Counter()
        """How often agents did what."""
        self.usual_s = 60 * token_delay_s
        """How long an answer takes."""
        self._numbers = count()

    async def call(
        self, session: str, messages: Sequence[Json], leaves_after_s: float | None, **fields: object
    ) -> list[Json]:
        """One request; its answers, or none."""
        name = f"c{next(self._numbers)}"
        headers = {"x-request-id": name, **_mapping(fields.pop("headers", {}))}
        self.outcomes[name] = "failed"
        try:
            async with asyncio.timeout(leaves_after_s):
                answers = await self._answers(session, messages, headers, fields)
        except TimeoutError:
            self.outcomes[name] = "hung_up"
            self.did["hang-up"] += 1
            return []
        except aiohttp.ClientError:
            return []
        self.outcomes[name] = "answered" if answers else "failed"
        self.did["answered" if answers else "failed"] += 1
        return answers

    async def _answers(
        self, session: str, messages: Sequence[Json], headers: Mapping[str, str], fields: Mapping[str, object]
    ) -> list[Json]:
        if fields.get("stream"):
            rest = {name: value for name, value in fields.items() if name != "stream"}
            streamed = await stream(self.house, session, messages, headers=headers, **rest)
            indices = {choice["index"] for chunk in streamed.chunks for choice in chunk["choices"]}
            return [streamed.choice(index)["message"] for index in sorted(indices)] if streamed.done else []
        answer: Answer = await self.house.ask(session, messages, None, headers=headers, **fields)
        self.did["replayed"] += "x-gateway-replayed" in answer.headers
        return [choice["message"] for choice in answer.body["choices"]] if answer.status == 200 else []


def _mapping(value: object) -> Mapping[str, str]:
    assert isinstance(value, dict)
    return value


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

    async def _ask(self, leaves_after_s: float | None = None, **fields: object) -> list[Json]:
        if self._chance(0.04):
            kind = self._random.choice(_FAULTS)
            self._crowd.house.faults.inject(kind, after=self._random.randrange(1, 40))
            self._crowd.did["fault"] += 1
        return await self._crowd.call(self._session, self._messages, leaves_after_s, **fields)

    async def _asked(self) -> list[Json]:
        """Ask for the next turn in one manner or another; what is gone on from."""
        fields, crowd = self._fields(), self._crowd
        marked, key = fields | {"headers": retry()}, self._random.randbytes(8).hex()
        match self._random.choices(["once", "left", "again", "retried", "keyed"], [50, 24, 10, 8, 8])[0]:
            case "left":
                answers = await self._ask(self._random.random() * 1.2 * crowd.usual_s, **fields)
                then = self._random.choice([marked, fields, None])
                return answers or ([] if then is None else await self._ask(**then))
            case "again":
                crowd.did["resample"] += 1
                return [*await self._ask(**fields), *await self._ask(**fields)]
            case "retried":
                crowd.did["retry"] += 1
                first = asyncio.ensure_future(self._ask(self._random.random() * crowd.usual_s, **fields))
                await asyncio.sleep(self._random.random() * crowd.usual_s)
                return [*await self._ask(**marked), *await first]
            case "keyed":
                crowd.did["keyed"] += 1
                both = fields | {"headers": keyed(key)}
                return [*await self._ask(**both), *await self._ask(**both)]
        return await self._ask(**fields)

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
        answers = await self._ask(**self._fields())
        summary = answers[0].get("content") if answers else None
        self._messages = [self._messages[0], user(f"So far: {summary or 'nothing'}")]

    async def _delegate(self) -> None:
        """Another agent of the same session answers a question of its own."""
        self._crowd.did["sub-agent"] += 1
        other = Agent(self._crowd, self._session, self._random.randbytes(8).hex())
        await other.run(self._random.randrange(1, 3))
