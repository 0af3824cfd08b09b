"""Weight syncs: turns wait at the gate, engines are paused, leases end by themselves, and agents notice nothing."""

import asyncio
from typing import cast

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer

from gateway.sim import JOURNAL
from tests.edge.house import HELLO, Answer, House, Json, OpenHouse, Words, until, waiting
from tests.edge.streams import reading

WAIT_S = 2.0
"""For 100 calls to be held; the trial holds them for ten."""


async def admin(house: House, what: str, **said: object) -> Answer:
    """Say something on one of the trainer's routes."""
    return await house.call("POST", f"/admin/{what}", data=orjson.dumps(said))


async def state(house: House) -> Json:
    """What is in force."""
    told: Json = (await house.call("GET", "/admin/pause")).body
    return told


async def spans(house: House, session: str = "s") -> list[tuple[str, int, int, str]]:
    """The policy versions of a session's last turn."""
    told = (await house.turns(session))[-1]["policy_versions"]
    return [(span["version"], span["start"], span["end"], span["source"]) for span in told]


@pytest.mark.process
async def test_a_hold_keeps_calls_from_engines_until_it_is_over_and_fails_none(
    open_house: OpenHouse, words: Words
) -> None:
    """A hundred of them, half of which are streams that are kept alive."""
    house = await open_house(keep_alive_s=0.3)
    client = TestClient(cast(TestServer, house.http.server))  # the agents have all connections of the other
    trainer = House(client, None)
    paused = await admin(house, "pause", mode="hold", lease_s=60)
    assert (paused.status, paused.body["paused"]["mode"], paused.body["warnings"]) == (200, "hold", [])
    script, comments = words.said("Yes."), []

    async def streamed(number: int) -> int:
        async with reading(house, f"t{number}", HELLO, script) as (answer, chunks):
            async for _ in chunks:
                pass
        comments.append(answer.comments)
        return answer.status if answer.done else 0

    calls = [asyncio.ensure_future(streamed(number)) for number in range(50)]
    plain = [asyncio.ensure_future(house.ask(f"s{number}", HELLO, script)) for number in range(50)]

    async def all_wait() -> bool:
        return bool((await state(trainer))["waiting"] == 100)

    await until(all_wait)
    await asyncio.sleep(WAIT_S)
    assert not house.journal
    assert not any(call.done() for call in [*calls, *plain])
    assert (await trainer.metric("gateway_turns_held"), await trainer.metric("gateway_paused")) == (100, 1)
    assert (await admin(trainer, "resume")).status == 200
    await trainer.http.session.close()
    assert set(await asyncio.gather(*calls)) == {200}
    assert {answer.status for answer in await asyncio.gather(*plain)} == {200}
    assert min(comments) >= 1
    assert (await house.metric("gateway_turns_held"), await house.metric("gateway_paused")) == (0, 0)
    assert await house.metric("gateway_pause_seconds_total") >= WAIT_S


async def test_a_trainer_that_is_dead_cannot_hold_turns_for_ever(house: House, words: Words) -> None:
    """Its lease ends, and what waited goes on."""
    await admin(house, "pause", mode="hold", owner="dead", lease_s=0.3)
    answer = await house.ask("s", HELLO, words.said("Yes."))
    assert answer.status == 200
    assert (await state(house))["paused"] is None


async def test_who_pauses_again_has_its_lease_renewed(house: House) -> None:
    """Once more is no second pause: one resume ends it."""
    await admin(house, "pause", mode="hold", owner="a", lease_s=0.3)
    await admin(house, "pause", mode="hold", owner="a", lease_s=60)
    await asyncio.sleep(0.4)
    told = (await state(house))["paused"]
    assert [owner["owner"] for owner in told["owners"]] == ["a"]
    assert told["lease_left_s"] > 50
    assert (await admin(house, "resume", owner="a")).body["paused"] is None


async def test_each_owner_ends_its_own_pause(house: House, words: Words) -> None:
    """Turns wait for the last of them; an owner that has none has nothing to do."""
    for owner in "ab":
        await admin(house, "pause", mode="hold", owner=owner)
    nobody = await admin(house, "resume", owner="nobody")
    assert (nobody.status, len(nobody.body["paused"]["owners"])) == (200, 2)
    async with waiting(house, "s", HELLO, words.said("Yes.")) as call:
        left = await admin(house, "resume", owner="a")
        assert [owner["owner"] for owner in left.body["paused"]["owners"]] == ["b"]
        await asyncio.sleep(0.05)
        assert not call.done()
        await admin(house, "resume")
        assert (await call).status == 200


async def test_new_sessions_wait_while_those_that_have_turns_go_on(house: House, words: Words) -> None:
    """With that scope."""
    script = words.said("Yes.")
    await house.ask("old", HELLO, script)
    await admin(house, "pause", mode="hold", scope="new_sessions")
    assert (await house.ask("old", HELLO, script)).status == 200
    async with waiting(house, "new", HELLO, script) as call:
        await asyncio.sleep(0.05)
        assert not call.done()
        await admin(house, "resume")
        assert (await call).status == 200


@pytest.mark.parametrize(
    ("what", "said", "param"),
    [
        ("pause", {}, "mode"),
        ("pause", {"mode": "hold", "lease": 5}, "lease"),
        ("resume", {"version": 7}, "version"),
        ("policy", {}, "version"),
    ],
)
async def test_an_ill_request_is_refused_with_the_field_named(house: House, what: str, said: Json, param: str) -> None:
    """And changes nothing."""
    answer = await admin(house, what, **said)
    assert (answer.status, answer.error["param"]) == (400, param)
    assert (await state(house))["paused"] is None


async def test_a_drain_waits_for_calls_under_way(open_house: OpenHouse, words: Words) -> None:
    """Its answer comes when there is none, and they end well."""
    house = await open_house(sim={"token_delay_s": 0.02})
    async with waiting(house, "s", HELLO, words.said("It is a long answer.")) as call:
        await until(lambda: house.sim[JOURNAL].running)
        drained = await admin(house, "pause", mode="drain")
        assert (drained.body["in_flight"], drained.body["paused"]["mode"]) == (0, "drain")
        assert (await call).status == 200


async def test_a_drain_goes_on_when_its_caller_hangs_up(open_house: OpenHouse, words: Words) -> None:
    """Until somebody resumes, or its lease ends; a drain that is ended is answered at once."""
    house = await open_house(sim={"token_delay_s": 0.05})
    async with waiting(house, "s", HELLO, words.said("It is a very long answer indeed.")) as call:
        await until(lambda: house.sim[JOURNAL].running)
        drain = asyncio.ensure_future(admin(house, "pause", mode="drain", owner="gone"))

        async def is_in_force() -> bool:
            return (await state(house))["paused"] is not None

        await until(is_in_force)
        drain.cancel()
        await asyncio.gather(drain, return_exceptions=True)
        other = asyncio.ensure_future(admin(house, "pause", mode="drain", owner="other"))
        await asyncio.sleep(0.05)
        told = await state(house)
        assert ([owner["owner"] for owner in told["paused"]["owners"]], told["in_flight"]) == (["gone", "other"], 1)
        await admin(house, "resume")
        assert (await asyncio.wait_for(other, 0.5)).error["code"] == "pause_ended"
        assert (await call).status == 200


async def test_a_drain_whose_lease_ends_before_it_is_done_is_an_error_that_may_be_tried_again(
    open_house: OpenHouse, words: Words
) -> None:
    """Who takes anything but 200 for a no loads no weights into turns that run."""
    house = await open_house(sim={"token_delay_s": 0.05})
    async with waiting(house, "s", HELLO, words.said("It is a long answer.")) as call:
        await until(lambda: house.sim[JOURNAL].running)
        drained = await admin(house, "pause", mode="drain", owner="trainer", lease_s=0.2)
        assert (drained.status, drained.error["code"]) == (409, "pause_ended")
        assert "1 calls under way" in drained.error["message"]
        assert "lease_s" in drained.error["message"]
        assert "x-should-retry" not in drained.headers
        assert ((await state(house))["paused"], call.done()) == (None, False)
        assert (await admin(house, "pause", mode="drain", owner="trainer", lease_s=20)).body["in_flight"] == 0
        assert (await call).status == 200


async def test_a_version_is_announced_by_a_resume_and_told_by_each_answer(house: House, words: Words) -> None:
    """Streamed or not, in a replay too: the one when the call came. On the turn it is exact: nothing ran meanwhile."""
    script = words.said("Yes.")
    first = await house.ask("s", HELLO, script)
    assert first.headers["x-policy-version"] == "unknown"
    assert await spans(house) == [("unknown", 0, len(script), "engine")]
    for version in ("step-1", "step 2"):
        await admin(house, "pause", mode="hold")
        await admin(house, "resume", version=version)
        await admin(house, "policy", version=version)
    told = (await house.call("GET", "/admin/policy")).body
    assert told == {"version": "step 2", "ordinal": 2, "source": "fenced"}
    key = {"Idempotency-Key": "k"}
    answers = [await house.ask("s", HELLO, script, headers=key) for _ in range(2)]
    assert [answer.headers["x-policy-version"] for answer in answers] == ["step%202"] * 2
    assert await spans(house) == [("step 2", 0, len(script), "fenced")]
    async with reading(house, "s", HELLO, script) as (streamed, chunks):
        async for _ in chunks:
            pass
    assert streamed.headers["x-policy-version"] == "step%202"
    assert await house.metric("gateway_policy_ordinal") == 2


async def test_a_pause_that_clients_will_not_wait_for_is_warned_about(house: House) -> None:
    """By its lease it may last so long."""
    paused = await admin(house, "pause", mode="hold", lease_s=301)
    assert "undici" in paused.body["warnings"][0]
    assert (await state(house))["warnings"]
    longer = await admin(house, "pause", mode="hold", lease_s=600)
    assert "OpenAI" in longer.body["warnings"][0]


async def test_scores_are_calls_too_and_are_asked_anew_when_a_pause_ends_them(open_house: OpenHouse) -> None:
    """None of them is of two policies; whoever asked only waits."""
    house = await open_house(sim={"prefill_delay_s": 0.03})
    scoring = asyncio.ensure_future(house.send("POST", "/score", token_ids=list(range(100, 120))))
    await until(lambda: house.sim[JOURNAL].running)
    cut = await admin(house, "pause", mode="cut")
    assert (cut.body["in_flight"], scoring.done()) == (0, False)
    await admin(house, "resume")
    assert (await scoring).status == 200
