"""`docs/weight-sync.md`: what it tells a trainer to do, done."""

import asyncio
from typing import Any

from gateway.sim import JOURNAL
from gateway.sim.keys import CONTROL
from tests.edge.house import HELLO, OpenHouse, Words, until, waiting
from tests.readme.documents import ROOT, texts_of

DOCUMENT = ROOT / "docs" / "weight-sync.md"


async def test_the_trainers_ten_lines_do_as_they_say(open_house: OpenHouse, words: Words) -> None:
    """A turn under way is sampled to its end by the old weights; one that comes meanwhile by the new ones."""
    house = await open_house(sim={"token_delay_s": 0.02, "version": "0.31.0"}, admin_key="hush", agent_key="agent")
    script, key = words.said("It is a long answer."), {"x-api-key": "hush"}
    blocks = texts_of(DOCUMENT, "python")
    said: dict[str, Any] = {"GATEWAY_URL": str(house.http.make_url("")), "ADMIN_KEY": "hush"}
    exec(blocks[0], said)
    sent_while_running: list[int] = []

    def send_weights() -> None:
        sent_while_running.append(house.sim[JOURNAL].running)
        house.sim[CONTROL].version = "step-2"

    await asyncio.to_thread(said["sync"], "step-1", lambda: None)
    async with waiting(house, "before", HELLO, script, headers=key) as before:
        await until(lambda: house.sim[JOURNAL].running)
        syncing = asyncio.ensure_future(asyncio.to_thread(said["sync"], "step-2", send_weights))

        async def is_paused() -> bool:
            return bool((await house.call("GET", "/admin/pause", headers=key)).body["paused"])

        await until(is_paused)
        async with waiting(house, "after", HELLO, script, headers=key) as after:
            assert (await before).status == (await after).status == 200
        await syncing
    said["gateway"].close()
    assert sent_while_running == [0]
    for session, version in [("before", "step-1"), ("after", "step-2")]:
        (turn,) = (await house.call("GET", f"/sessions/{session}/turns", headers=key)).body["data"]
        assert [(span["version"], span["source"]) for span in turn["policy_versions"]] == [(version, "fenced")]
