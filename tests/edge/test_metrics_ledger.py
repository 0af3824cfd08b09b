"""After odd traffic every counter says what the ledgers say."""

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random

import aiohttp
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.edge.house import HELLO, House, Json, OpenHouse, Words, until, user, waiting
from tests.edge.streams import reading

FAULTS = ("cut", "error_500", "no_logprobs", "missing_logprob", "abort", "no_finish", "null_logprob", "garbage")
SESSIONS = tuple("abcdef")


class Told:
    """What the metrics say at one moment."""

    def __init__(self, families: dict[str, Metric]) -> None:
        self._families = families

    def of(self, name: str, label: str | None = None) -> Counter[str]:
        """The values of a metric, by a label; without one under the empty word. What is zero is left out."""
        told = Counter[str]()
        for sample in self._families[name].samples:
            if not sample.name.endswith(("_bucket", "_sum")):
                told[sample.labels[label] if label else ""] += int(sample.value)
        return +told

    @property
    def calls(self) -> int:
        """How many calls have ended."""
        return self.of("gateway_calls").total()


async def told(house: House) -> Told:
    """What a scrape says now."""
    text = (await house.call("GET", "/metrics")).body
    return Told({family.name: family for family in text_string_to_metric_families(text)})


class Traffic:
    """Calls of every kind, and how many there were."""

    def __init__(self, house: House, words: Words, random: Random) -> None:
        self.house, self.words, self.random, self.calls = house, words, random, 0
        self.histories: dict[str, list[Json]] = {}

    async def one(self) -> None:
        """A call to one of the sessions, after which all may be other than before."""
        session, pick = self.random.choice(SESSIONS), self.random.random()
        if pick < 0.3:
            self.house.faults.inject(self.random.choice(FAULTS), after=self.random.randrange(4))
        messages = self.histories.get(session, [*HELLO])
        script = self.words.said("Hello, you.")
        fields: Json = {"n": self.random.choice((1, 1, 3))}
        if self.random.random() < 0.2:
            fields["temperature"] = "warm"
        if self.random.random() < 0.3:
            fields["stop"] = ["you"]
        way = self.random.choice((self._whole, self._streamed, self._left, self._again))
        await way(session, messages, script, fields)

    async def _whole(self, session: str, messages: list[Json], script: list[int], fields: Json) -> None:
        self.calls += 1
        answer = await self.house.ask(session, messages, script, **fields)
        if answer.status == 200:
            edited = [{**messages[0], "content": "Edited."}, *messages[1:]] if self.random.random() < 0.2 else messages
            self.histories[session] = [*edited, answer.message, user("And?")]

    async def _streamed(self, session: str, messages: list[Json], script: list[int], fields: Json) -> None:
        self.calls += 1
        async with reading(self.house, session, messages, script, **fields) as (_, chunks):
            most = self.random.choice((0, 1, 3, 1000))
            async for _chunk in chunks:
                most -= 1
                if most < 0:
                    break

    async def _left(self, session: str, messages: list[Json], script: list[int], fields: Json) -> None:
        seen = (await told(self.house)).calls
        async with waiting(self.house, session, messages, script, **fields):
            await until(lambda: self.house.journal)
            await asyncio.sleep(self.random.random() / 20)
        await self.house.idle()
        self.calls += (await told(self.house)).calls - seen  # none, where its client left before it was read

    async def _again(self, session: str, messages: list[Json], script: list[int], fields: Json) -> None:
        key = {"Idempotency-Key": str(self.calls)}
        self.calls += 3
        asked = (self.house.ask(session, messages, script, headers=key, **fields) for _ in range(2))
        with suppress(aiohttp.ClientError):
            await asyncio.gather(*asked)
            await self.house.ask(session, messages, script, headers=key, **fields)


@pytest.mark.parametrize(("seed", "resumes"), [(1, 0), (2, 2)])
async def test_counters_are_those_of_the_ledgers(open_house: OpenHouse, words: Words, seed: int, resumes: int) -> None:
    """Whatever was asked, hung up on, asked again, refused, cut or made anew; deleted sessions hold nothing."""
    house = await open_house(sim={"token_delay_s": 0.003}, resume_attempts=resumes)
    traffic = Traffic(house, words, Random(seed))
    for _ in range(25):
        await traffic.one()
    await house.idle()

    async def has_counted_all() -> bool:
        return (await told(house)).calls == traffic.calls

    await until(has_counted_all)
    now = await told(house)
    turns = [turn for session in SESSIONS for turn in await house.turns(session)]
    aborted = [turn for turn in turns if turn["status"] == "aborted"]
    assert aborted
    assert now.of("gateway_turns", "status") == Counter(turn["status"] for turn in turns)
    assert now.of("gateway_aborts", "reason") == Counter(turn["ended_by"] for turn in aborted)
    assert now.of("gateway_prompts", "reason") == Counter(turn["reason"] or "" for turn in turns)
    sums = {kind: sum(turn[f"{kind}_tokens"] for turn in turns) for kind in ("prompt", "completion", "overshoot")}
    assert now.of("gateway_tokens", "type") == +Counter(sums)
    sources = now.of("gateway_prompt_prefix_tokens", "source")
    assert sources.total() == sums["prompt"]
    assert now.of("gateway_session_turns")[""] == len(turns)
    assert now.of("gateway_session_tokens")[""] == sources["rendered"] + sums["completion"]

    for session in SESSIONS:
        await house.call("DELETE", f"/sessions/{session}")
    after = await told(house)
    for name in ("sessions", "session_turns", "session_tokens", "streams", "turns_in_flight", "queue_turns"):
        assert not after.of(f"gateway_{name}")
