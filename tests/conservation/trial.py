"""Agents before a gateway, a recording proxy behind it, and the account of every token that the proxy saw.

``python -m tests.conservation.trial --sessions 500`` prints one line of figures; exit code 1 when the account does not
balance.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import aiohttp
import orjson
import structlog
from aiohttp.test_utils import TestClient

from gateway.app import create_app
from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.settings import Settings
from gateway.verify.verdict import Verdict, verify
from tests.conservation.agents import Agent, Crowd
from tests.conservation.balance import EVENT_IDS, Balance, Outcome, Seen, Told, balance_of, keys_of, seen_of
from tests.conservation.engine import create_late_sim
from tests.edge.house import House, Json, serving
from tests.recorder import Recorder

_RANKS = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is asked of the gateway."""

    sessions: int
    together: int = 40
    """How many sessions are under way at once."""
    turns: int = 5
    token_delay_s: float = 0.002
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """What was seen, what is told, and what agents know of it."""

    seen: list[Seen]
    told: list[Told]
    """With partials among what is trained."""
    told_without: list[Told]
    """As a trainer gets it who does not ask for partials."""
    outcomes: dict[str, Outcome]
    did: Counter[str]
    verdict: Verdict
    """What `gateway verify` says of all rows."""
    faults: list[str]
    """What is wrong with the rows by themselves."""
    cpu_s: float

    def balances(self) -> tuple[Balance, Balance]:
        """What was seen held against what is told, with partials and without."""
        with_partials, without = (balance_of(self.seen, told, self.outcomes) for told in (self.told, self.told_without))
        return with_partials, without


@asynccontextmanager
async def opened(plan: Plan) -> AsyncIterator[tuple[House, Recorder]]:
    """A gateway, its engine of two ranks, and the proxy between them."""
    async with AsyncExitStack() as stack:
        sim = create_late_sim(tokenizer=FOLDER, token_delay_s=plan.token_delay_s, ranks=_RANKS, journal_size=1)
        engine = await stack.enter_async_context(serving(sim))
        recorder = Recorder(str(engine.make_url("")).rstrip("/"))
        await recorder.start()
        stack.push_async_callback(recorder.stop)
        settings = Settings(
            model=MODEL_NAME,
            engine=(f"{recorder.url}#dp={_RANKS}",),
            client_seed="keep",
            stream_interval_tokens=EVENT_IDS,
            disconnect_grace_s=plan.token_delay_s * 10,
        )
        gateway = await stack.enter_async_context(serving(create_app(settings)))
        client = TestClient(gateway, connector=aiohttp.TCPConnector(limit=0))
        yield House(await stack.enter_async_context(client), sim), recorder


async def accounted(plan: Plan) -> Account:
    """Let the agents come, and take the account when they have left."""
    started_s = time.process_time()
    with structlog.testing.capture_logs():
        async with opened(plan) as (house, recorder):
            crowd, room = Crowd(house, plan.token_delay_s), asyncio.Semaphore(plan.together)
            async with asyncio.TaskGroup() as group:
                for number in range(plan.sessions):
                    group.create_task(_session(crowd, room, plan, number))
            house.faults.clear()
            await house.idle()
            seen = seen_of(recorder.exchanges)
            without, faults = await told_by(house)
            told, more = await told_by(house, "&include=aborted", in_lines=True)
            verdict, took_s = await _verdict(house), time.process_time() - started_s
    return Account(seen, told, without, crowd.outcomes, crowd.did + crowd.refused, verdict, faults + more, took_s)


async def _session(crowd: Crowd, room: asyncio.Semaphore, plan: Plan, number: int) -> None:
    async with room:
        random, session = Random(f"{plan.seed} {number}"), f"s{number}"
        if random.random() < 0.5:
            rollout = {"rollout_id": f"r{number // 3}"} if random.random() < 0.5 else {}
            made = await crowd.house.send("POST", "/sessions", session_id=session, group_id="g", **rollout)
            assert made.status == 201, made
        await Agent(crowd, session, f"{plan.seed} {number} agent").run(random.randrange(2, 2 * plan.turns))
        if random.random() < 0.8:
            await crowd.house.send("POST", f"/sessions/{session}/finish", reward=random.random())


async def told_by(house: House, more: str = "", *, in_lines: bool = False) -> tuple[list[Told], list[str]]:
    """What the rows of all sessions train, and what is left out of them; and what is wrong with that."""
    query = f"/trajectories?status=all{more}"
    rows, excluded = await (_lines(house, f"{query}&footer=true") if in_lines else _pages(house, query))
    told, faults = [], []
    for row in rows:
        trained = [part for part in row["turns"] if part["trained"]]
        told += [_told(part, row["token_ids"], row["logprobs"]) for part in trained]
        masked = {at for part in trained for at in range(part["start"], part["end"])}
        if {at for at, mask in enumerate(row["loss_mask"]) if mask} != masked:
            faults.append(f"{row['row_id']}: its mask is not that of its turns")
    for left in excluded:
        turn = await _turn(house, left["session_id"], left["turn_id"])
        told.append(_told(turn, turn["prompt_ids"] + turn["completion_ids"], turn["logprobs"], left["reason"]))
        if len(turn["completion_ids"]) != left["tokens"]:
            faults.append(f"{left['turn_id']}: it is left out with {left['tokens']} tokens")
    return told, faults


def _told(turn: Json, ids: list[int], logprobs: list[float], because: str | None = None) -> Told:
    """A turn, which ends where `ids` do or is said to; the logprobs are those of the same end."""
    start = turn["prompt_tokens"]
    end = start + turn["completion_tokens"]
    sampled = logprobs if because else logprobs[start:end]
    keys = keys_of(ids[:start], ids[start:end], sampled)
    sampling = turn["sampling"]
    stopped = bool(sampling["stop"]) or ids[end - 1] in sampling["stop_token_ids"]
    may_end = stopped or turn["finish_reason"] == "length"
    return Told(turn["turn_id"], because, keys, turn["status"] == "complete", turn["overshoot_tokens"], may_end)


async def _pages(house: House, query: str) -> tuple[list[Json], list[Json]]:
    rows, excluded, cursor = [], [], ""
    while True:
        page = (await house.call("GET", query + cursor)).body
        rows += page["data"]
        excluded += page["excluded"]
        if page["next"] is None:
            return rows, excluded
        cursor = f"&cursor={page['next']}"


async def _lines(house: House, query: str) -> tuple[list[Json], list[Json]]:
    answer = await house.call("GET", query, headers={"Accept": "application/x-ndjson"})
    *rows, last = map(orjson.loads, answer.body.splitlines())
    return rows, last["footer"]["excluded"]


async def _turn(house: House, session: str, turn_id: str) -> Json:
    """A turn with its ids."""
    path, cursor = f"/sessions/{session}/turns?ids=true", ""
    while True:
        page = (await house.call("GET", path + cursor)).body
        for turn in page["data"]:
            if turn["turn_id"] == turn_id:
                return dict(turn)
        cursor = f"&cursor={page['next']}"


async def _verdict(house: House) -> Verdict:
    """What `gateway verify` says of all rows, partials included."""
    path = "/trajectories?status=all&include=aborted&footer=true"
    answer = await house.call("GET", path, headers={"Accept": "application/x-ndjson"})
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rows.ndjson"
        file.write_text(answer.body)
        return verify(file, strict=True)


def main() -> int:
    """Do it as the flags say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--together", type=int, default=40, help="sessions under way at once")
    parser.add_argument("--token-delay-s", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=0)
    account = asyncio.run(accounted(Plan(**vars(parser.parse_args()))))
    balances = account.balances()
    faults = [*account.faults, *(fault for balance in balances for fault in balance.faults)]
    for fault in faults[:20]:
        print(fault, file=sys.stderr)
    print(account.verdict)
    print(*(f"{deed}={times}" for deed, times in sorted(account.did.items())))
    print(*balances, sep="\n")
    print(f"calls={len(account.seen)} turns={len(account.told)} faults={len(faults)} cpu_s={account.cpu_s:.1f}")
    return int(bool(faults) or account.verdict.mismatch is not None)


if __name__ == "__main__":
    sys.exit(main())
