"""A gateway with two simulated engines, of which a test knows the one that a session is pinned to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

from gateway.sim import FAULTS, JOURNAL, create_sim
from gateway.sim.server import Entry, Faults
from tests.edge.house import HELLO, Application, House, Json, OpenHouse, generated, serving, user
from tests.edge.obstacle import Obstacle
from tests.edge.streams import stream

SAID = [9707, 11, 1879]
"""What these engines say, again and again unless their eos ends it: "Hello, world"."""
EOS = 151645


@dataclass(frozen=True, slots=True)
class Told:
    """An answer, streamed or not, in one shape."""

    status: int
    choice: Json
    error: Json | None


@dataclass(frozen=True, slots=True)
class Pair:
    """A gateway that carries answers on, and the engines behind it, by their URLs."""

    house: House
    sims: dict[str, Application]
    home: str
    """The engine that the session is pinned to."""
    obstacles: dict[str, Obstacle]
    """What stands before the engines."""
    session: str

    @property
    def away(self) -> str:
        """The other one."""
        return next(url for url in self.sims if url != self.home)

    @property
    def faults(self) -> Faults:
        """What will go wrong at home."""
        return self.sims[self.home][FAULTS]

    @property
    def calls(self) -> list[Entry]:
        """The calls of the one turn that was taken since, in order."""
        entries = [entry for sim in self.sims.values() for entry in generated(sim)]
        return sorted(entries, key=lambda entry: int((entry.request_id or "").partition("-r")[2] or 0))

    @property
    def emitted(self) -> list[int]:
        """All ids that were written, in that order."""
        return [token_id for entry in self.calls for token_id in entry.emitted]

    def prompt(self, call: int) -> list[int]:
        """The ids that a call gave its engine."""
        return cast(list[int], self.calls[call].body["token_ids"])

    def params(self, call: int) -> Json:
        """Its sampling parameters."""
        return cast(Json, self.calls[call].body["sampling_params"])

    async def ask(self, *, streams: bool, **fields: Any) -> Told:
        """One turn of the session."""
        if streams:
            streamed = await stream(self.house, self.session, HELLO, **fields)
            return Told(streamed.status, streamed.choice() if not streamed.error else {}, streamed.error)
        answer = await self.house.ask(self.session, HELLO, **fields)
        fine = answer.status == 200
        return Told(answer.status, answer.body["choices"][0] if fine else {}, None if fine else answer.error)

    async def turns(self) -> list[Json]:
        """The session's turns but for the first, with their ids."""
        answer = await self.house.call("GET", f"/sessions/{self.session}/turns?ids=true")
        return cast(list[Json], answer.body["data"][1:])


@asynccontextmanager
async def open_pair(
    open_house: OpenHouse, sim: Json | None = None, away: Json | None = None, **settings: Any
) -> AsyncIterator[Pair]:
    """A gateway with two engines, alike unless it is said what the one is like that is not home; the session has had a
    turn. It is ``s`` unless that would be at home with the wrong one.
    """
    one, other = create_sim(**(sim or {})), create_sim(**(sim or {}) | (away or {}))
    obstacles = [Obstacle(one), Obstacle(other)]
    async with serving(one) as first, serving(other) as second:
        urls = [str(server.make_url("")).rstrip("/") for server in (first, second)]
        sims = dict(zip(urls, (one, other), strict=True))
        house = await open_house(engine=tuple(sims), **{"resume_attempts": 5} | settings)
        top_k: dict[str, Any] = {"top_k": 20} if (sim or {}).get("sampling_mask") else {}
        session, numbers = "s", count()
        while True:
            assert (await house.ask(session, [user("Whose?")], max_tokens=1, **top_k)).status == 200
            home = next(url for url, app in sims.items() if generated(app))
            for app in sims.values():
                app[JOURNAL].entries.clear()
            if away is None or home == urls[0]:
                break
            session = f"s{next(numbers)}"
        yield Pair(house, sims, home, dict(zip(urls, obstacles, strict=True)), session)
