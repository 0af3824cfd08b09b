"""A marked retry is answered by the call that it repeats; everything else is sampled."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web
from openai import AsyncOpenAI

from gateway.app import create_app
from gateway.edge.retries import Retries, Sending, Taken, sending_of
from gateway.edge.sessions import Session
from gateway.edge.tasks import WaitedTask, WaitedTasks
from gateway.errors import BadRequest, EngineUnavailable
from gateway.settings import Settings
from gateway.sim import create_sim
from tests.edge.house import (
    HELLO,
    MODEL_NAME,
    Answer,
    House,
    KeepingStore,
    OpenHouse,
    Words,
    serving,
    until,
    user,
    waiting,
)

LONG = "A long answer. " * 40


def retry(count: object = 1) -> Mapping[str, str]:
    """The header of an SDK's retry."""
    return {"x-stainless-retry-count": str(count)}


def keyed(key: str) -> Mapping[str, str]:
    """The header of a request that may be sent again."""
    return {"Idempotency-Key": key}


def turn_id(answer: Answer) -> str:
    """Which turn an answer shows."""
    assert answer.status == 200
    return answer.headers["x-turn-id"]


def is_replayed(answer: Answer) -> bool:
    """Whether it was there before it was asked for."""
    return answer.headers.get("x-gateway-replayed") == "true"


async def statuses(house: House, session: str = "s") -> list[str]:
    """What the turns of a session are, in order."""
    return [turn["status"] for turn in await house.turns(session)]


class LosingProxy:
    """A way to a gateway on which the first answers are lost after they were sent."""

    def __init__(self, house: House, losses: int) -> None:
        self._house = house
        self.losses = losses
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator["LosingProxy"]:
        """Listen."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.Response:
        kept = ("content-type", "x-stainless-retry-count", "idempotency-key", "authorization")
        headers = {name: value for name, value in request.headers.items() if name.lower() in kept}
        answer = await self._house.http.request(
            request.method, request.path_qs, data=await request.read(), headers=headers
        )
        body = await answer.read()
        if self.losses and request.transport is not None:
            self.losses -= 1
            request.transport.abort()
        passed = {name: value for name, value in answer.headers.items() if name.lower().startswith("x-")}
        return web.Response(body=body, status=answer.status, content_type=answer.content_type, headers=passed)


@pytest.mark.parametrize("base", ["/v1", "/sessions/s/v1"])
@pytest.mark.parametrize("losses", [1, 2])
async def test_an_answer_lost_on_the_way_is_sampled_once(house: House, base: str, losses: int) -> None:
    """The retries of a real SDK get the turn that was recorded, in the session that was minted for it."""
    async with (
        LosingProxy(house, losses).open() as proxy,
        AsyncOpenAI(base_url=proxy.url + base, api_key="k", max_retries=2) as client,
    ):
        raw = await client.chat.completions.with_raw_response.create(
            model="sim", messages=[{"role": "user", "content": "Hello?"}]
        )

    assert proxy.losses == 0
    assert len(house.journal) == 1
    (turn,) = await house.turns(raw.headers["x-session-id"])
    assert (raw.headers["x-turn-id"], raw.headers["x-gateway-replayed"]) == (turn["turn_id"], "true")
    assert turn["turn_id"] in raw.parse().id


async def test_within_the_grace_a_retry_joins(open_house: OpenHouse, words: Words) -> None:
    """One call to the engine, and one complete turn: the first socket was closed while it was sampled."""
    house = await open_house(disconnect_grace_s=10, sim={"token_delay_s": 0.01})
    async with waiting(house, "s", HELLO, words.said(LONG[:60])):
        await until(lambda: house.journal and house.journal[0].emitted)

    answer = await house.ask("s", HELLO, words.said(LONG[:60]), headers=retry())

    assert is_replayed(answer)
    (turn,) = await house.turns("s")
    assert (turn["turn_id"], turn["status"]) == (turn_id(answer), "complete")
    assert len(house.journal) == 1


async def test_who_left_before_the_end_does_not_speak_for_who_joined(open_house: OpenHouse, words: Words) -> None:
    """The turn has reached its client, and so the next retry gets the older one."""
    house = await open_house(disconnect_grace_s=10, sim={"token_delay_s": 0.01})
    script = words.said(LONG[:60])
    older = await house.ask("s", HELLO, script)
    async with waiting(house, "s", HELLO, script):
        await until(lambda: len(house.journal) == 2)
    joined = await house.ask("s", HELLO, script, headers=retry(1))
    assert turn_id(joined) != turn_id(older)

    assert turn_id(await house.ask("s", HELLO, script, headers=retry(2))) == turn_id(older)


async def test_without_grace_a_retry_is_sampled_again(open_house: OpenHouse, words: Words) -> None:
    """Both are recorded as what they are."""
    house = await open_house(sim={"token_delay_s": 0.005})
    async with waiting(house, "s", HELLO, words.said(LONG[:60])):
        await until(lambda: house.journal and len(house.journal[0].emitted) >= 9)
    await until(lambda: house.journal[0].disconnected)

    answer = await house.ask("s", HELLO, words.said(LONG[:60]), headers=retry())

    assert not is_replayed(answer)
    assert await statuses(house) == ["aborted", "complete"]
    assert turn_id(answer) == (await house.turns("s"))[1]["turn_id"]
    assert len(house.journal) == 2


async def test_a_grace_that_ends_is_as_a_client_that_leaves(open_house: OpenHouse, words: Words) -> None:
    """The engine is left, and what was sampled is an aborted turn."""
    house = await open_house(disconnect_grace_s=0.1)
    house.faults.inject("stall", after=3)
    async with waiting(house, "s", HELLO, words.said(LONG)):
        await until(lambda: house.journal and house.journal[0].emitted)

    await until(lambda: house.journal[0].disconnected)
    await house.idle()
    assert await statuses(house) == ["aborted"]


async def test_a_retry_joins_a_call_whose_client_still_seems_to_wait(open_house: OpenHouse, words: Words) -> None:
    """Both get the same turn; the first is not disturbed when the second leaves."""
    house = await open_house(sim={"token_delay_s": 0.005})
    async with waiting(house, "s", HELLO, words.said(LONG[:60])) as first:
        await until(lambda: house.journal)
        second = await house.ask("s", HELLO, words.said(LONG[:60]), headers=retry())
        assert turn_id(await first) == turn_id(second)
    assert (is_replayed(await first), is_replayed(second), len(house.journal)) == (False, True, 1)


async def test_of_two_equal_calls_the_retry_gets_the_one_that_nobody_waits_for(
    open_house: OpenHouse, words: Words
) -> None:
    """The other one's client is served as well, with its own."""
    house = await open_house(disconnect_grace_s=10, sim={"token_delay_s": 0.01})
    script = words.said(LONG[:60])
    async with waiting(house, "s", HELLO, script) as stays:
        await until(lambda: house.journal)
        async with waiting(house, "s", HELLO, script):
            await until(lambda: len(house.journal) == 2)
        retried = await house.ask("s", HELLO, script, headers=retry())
        assert turn_id(retried) != turn_id(await stays)
    assert (is_replayed(retried), len(house.journal)) == (True, 2)


@asynccontextmanager
async def one_of_two_lost(
    house: House, store: KeepingStore, headers: Sequence[Mapping[str, str]] = ({}, {})
) -> AsyncIterator[tuple[str, str]]:
    """Two equal calls, the first delivered, the second not: its client left while it was recorded. Their turns."""
    store.hold()
    async with waiting(house, "s", headers=headers[0]) as stays:
        await until(lambda: store.waiting == 1)
        async with waiting(house, "s", headers=headers[1]):
            await until(lambda: store.waiting == 2)
        await asyncio.sleep(0.05)  # for the gateway to see that it left
        store.release()
        delivered = turn_id(await stays)
    await until(lambda: len(store.turns) == 2)
    (lost,) = {turn.id for turn in store.turns} - {delivered}
    yield delivered, lost


async def test_of_two_equal_turns_the_retry_gets_the_one_that_is_known_to_be_lost(open_house: OpenHouse) -> None:
    """Not the older one; and when that has reached its client, the next retry gets the other."""
    store = KeepingStore()
    house = await open_house(store=store)
    async with one_of_two_lost(house, store) as (delivered, lost):
        assert turn_id(await house.ask("s", headers=retry(1))) == lost
        assert turn_id(await house.ask("s", headers=retry(2))) == delivered
    assert len(house.journal) == 2


async def test_with_keys_of_their_own_equal_turns_never_swap(open_house: OpenHouse) -> None:
    """Whichever of them is known to be lost, and however often they are asked for, with a count or without."""
    store = KeepingStore()
    house = await open_house(store=store)
    async with one_of_two_lost(house, store, (keyed("a"), keyed("b"))) as (delivered, lost):
        for count in (0, 1, 1, 2):
            replays = [await house.ask("s", headers={**keyed(key), **retry(count)}) for key in "bab"]
            assert [turn_id(replay) for replay in replays] == [lost, delivered, lost]
            assert all(map(is_replayed, replays))
    assert len(house.journal) == 2


async def test_keys_never_swap_while_their_calls_run(open_house: OpenHouse, words: Words) -> None:
    """Each key joins its own."""
    house = await open_house(sim={"token_delay_s": 0.01})
    script = words.said(LONG[:60])
    calls = [asyncio.ensure_future(house.ask("s", HELLO, script, headers=keyed(key))) for key in "abab"]
    answers = await asyncio.gather(*calls)

    assert turn_id(answers[0]) == turn_id(answers[2]) != turn_id(answers[1]) == turn_id(answers[3])
    assert len(house.journal) == 2


async def test_a_key_with_another_body_is_refused(house: House) -> None:
    """The caller is told which field is at fault; the key goes on to work with its own body, and in other sessions."""
    first = await house.ask("s", headers=keyed("k"))

    other = await house.ask("s", [user("Something else?")], headers=keyed("k"))

    assert (other.status, other.error["param"]) == (400, "Idempotency-Key")
    assert turn_id(await house.ask("s", headers=keyed("k"))) == turn_id(first)
    assert not is_replayed(await house.ask("t", [user("Something else?")], headers=keyed("k")))
    assert len(house.journal) == 2


async def test_a_key_that_is_too_long_is_refused(house: House) -> None:
    """Before anything is sampled."""
    answer = await house.ask("s", headers=keyed("k" * 256))

    assert (answer.status, answer.error["param"]) == (400, "Idempotency-Key")
    assert house.journal == []


async def test_calls_with_a_key_and_without_never_answer_each_other(house: House) -> None:
    """Neither way round."""
    answers = [
        await house.ask("s"),
        await house.ask("s", headers=keyed("k")),
        await house.ask("s", headers=retry()),
        await house.ask("s", headers={**keyed("k"), **retry()}),
    ]

    ids = [turn_id(answer) for answer in answers]
    assert (ids[2], ids[3]) == (ids[0], ids[1])
    assert len(house.journal) == 2


@pytest.mark.parametrize("count", [None, "0", "", "-1", "1.5", "one", "١", "9" * 10])
async def test_what_is_not_marked_is_a_resample(house: House, count: str | None) -> None:
    """A sibling, as often as it is sent; a count that is no number marks nothing."""
    for _ in range(2):
        assert not is_replayed(await house.ask("s", headers={} if count is None else retry(count)))

    assert len(house.journal) == len(await house.turns("s")) == 2


async def test_each_count_is_answered_once_by_each_turn(house: House) -> None:
    """The oldest first; when none is left, another is sampled."""
    first = turn_id(await house.ask("s"))
    again = await house.ask("s", headers=retry(1))
    assert (turn_id(again), is_replayed(again)) == (first, True)

    sampled = await house.ask("s", headers=retry(1))
    assert not is_replayed(sampled)

    assert turn_id(await house.ask("s", headers=retry(2))) == first
    assert turn_id(await house.ask("s", headers=retry(2))) == turn_id(sampled)
    assert not is_replayed(await house.ask("s", headers=retry(2)))
    assert len(house.journal) == 3


async def test_another_body_is_another_call(house: House) -> None:
    """And so is another session; all calls that name no session are of one kind."""
    named, unnamed = await house.ask("s"), await house.ask(None)

    assert not is_replayed(await house.ask("t", headers=retry()))
    assert not is_replayed(await house.ask("s", [user("Hello!")], headers=retry()))
    assert turn_id(await house.ask(None, headers={**retry(), "X-Session-ID": "s"})) == turn_id(named)
    again = await house.ask(None, headers=retry())
    assert turn_id(again) == turn_id(unnamed)
    assert again.headers["x-session-id"] == unnamed.headers["x-session-id"]


async def test_a_replay_says_what_the_first_answer_said(house: House, words: Words) -> None:
    """All choices of it; only the request has an id of its own."""
    script = words.said("Hi.")
    first = await house.ask("s", HELLO, script, n=2, return_token_ids=True)

    again = await house.ask("s", HELLO, script, n=2, return_token_ids=True, headers=retry())

    assert is_replayed(again)
    assert (again.headers["x-turn-id"], again.headers["x-session-id"]) == (first.headers["x-turn-id"], "s")
    assert again.headers["x-request-id"] != first.headers["x-request-id"]
    assert {**again.body, "created": 0} == {**first.body, "created": 0}


@pytest.mark.parametrize("headers", [[{}, retry()], [keyed("k"), keyed("k")]])
async def test_who_joined_a_call_that_fails_gets_its_error(
    open_house: OpenHouse, words: Words, headers: Sequence[Mapping[str, str]]
) -> None:
    """And the next retry is sampled, with the key or without."""
    house = await open_house(sim={"token_delay_s": 0.005})
    house.faults.inject("cut", after=20)
    calls = [asyncio.ensure_future(house.ask("s", HELLO, words.said(LONG[:60]), headers=each)) for each in headers]
    answers = await asyncio.gather(*calls)
    assert [answer.status for answer in answers] == [503, 503]
    assert len(house.journal) == 1

    again = await house.ask("s", HELLO, words.said(LONG[:60]), headers={**headers[1], **retry(2)})

    assert (again.status, is_replayed(again)) == (200, False)


async def test_calls_that_fail_together_do_not_come_back_as_one(house: House) -> None:
    """Each of them is sampled, and so are their retries: resamples are there to differ."""
    house.faults.inject("error_503", times=4)
    failed = await asyncio.gather(*(house.ask("s") for _ in range(4)))
    assert {answer.status for answer in failed} == {503}

    retried = await asyncio.gather(*(house.ask("s", headers=retry()) for _ in range(4)))

    assert len({turn_id(answer) for answer in retried}) == 4
    assert not any(map(is_replayed, retried))


async def test_a_call_that_failed_is_not_answered_by_an_equal_one_that_did_well(house: House) -> None:
    """Its retry is sampled; when that answer is lost, the retry after it gets it."""
    well = await house.ask("s")
    house.faults.inject("error_503")
    assert (await house.ask("s")).status == 503

    retried = await house.ask("s", headers=retry())

    assert not is_replayed(retried)
    assert turn_id(retried) != turn_id(well)


@pytest.mark.parametrize("settings", [{"retry_window_calls": 0}, {"retry_window_s": 0}])
async def test_beyond_the_window_a_retry_is_sampled(open_house: OpenHouse, settings: dict[str, int]) -> None:
    """Whatever it is marked with."""
    house = await open_house(**settings)
    for headers in (retry(), keyed("k"), keyed("k")):
        await house.ask("s")
        await asyncio.sleep(0.01)
        assert not is_replayed(await house.ask("s", headers=headers))


async def test_an_answer_that_could_not_be_written_is_known_to_be_lost(tokenizer_folder: str) -> None:
    """Where the server does not end the handler of a client that left, the closed socket says so."""
    async with serving(create_sim(token_delay_s=0.02)) as sim, aiohttp.ClientSession() as http:
        settings = Settings(model=tokenizer_folder, model_name=MODEL_NAME, engine=(str(sim.make_url("")),))
        runner = web.AppRunner(create_app(settings), handler_cancellation=False)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        session = f"http://127.0.0.1:{runner.addresses[0][1]}/sessions/s"

        async def ask(headers: Mapping[str, str]) -> str:
            async with http.post(f"{session}/v1/chat/completions", json={"messages": HELLO}, headers=headers) as answer:
                return answer.headers["x-turn-id"]

        async def are_recorded() -> list[str]:
            async with http.get(f"{session}/turns") as answer:
                ids = [turn["turn_id"] for turn in (await answer.json())["data"]]
                return ids if len(ids) == 2 else []

        await ask({})
        with suppress(TimeoutError):
            await asyncio.wait_for(ask({}), 0.03)
        await until(are_recorded)

        assert await ask(retry()) == (await are_recorded())[1]
        await runner.cleanup()


class Clock:
    """Seconds, as the test has them."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def taken(session_id: str) -> Taken:
    """A call that came to nothing much."""
    return Taken(Session(session_id), ())


async def ended(session_id: str) -> WaitedTask[Taken]:
    """A call that has ended."""
    task = WaitedTasks().start(taken(session_id), may_cancel=lambda: True)
    await task.wait()
    return task


@pytest.mark.parametrize("headers", [retry(), keyed("k")])
async def test_the_window_counts_from_the_end_of_a_call(headers: Mapping[str, str]) -> None:
    """A call under way is known however long it takes."""
    clock, go = Clock(), asyncio.Event()
    retries = Retries(10.0, 100, clock)

    async def slow() -> Taken:
        await go.wait()
        return await taken("s")

    sending = sending_of("s", b"digest", headers)
    task = WaitedTasks().start(slow(), may_cancel=lambda: True)
    retries.add(replace(sending, count=0), task)
    clock.now_s = 100.0
    assert retries.find(replace(sending, count=1)) is task
    go.set()
    await task.wait()
    await asyncio.sleep(0)

    clock.now_s = 110.0
    assert retries.find(replace(sending, count=2)) is task
    clock.now_s = 110.1
    assert retries.find(replace(sending, count=3)) is None


async def test_the_oldest_calls_make_room() -> None:
    """In whatever scope they are."""
    retries = Retries(10.0, 2, Clock())
    tasks = [await ended("s") for _ in range(3)]
    for number, task in enumerate(tasks):
        retries.add(Sending(str(number), b"digest"), task)
        await asyncio.sleep(0)

    found = [retries.find(Sending(str(number), b"digest", count=1)) for number in range(3)]
    assert found == [None, *tasks[1:]]


async def test_a_deleted_session_answers_no_retry() -> None:
    """Be it named by its calls or not, and with a key or without; the others go on."""
    retries = Retries(10.0, 100, Clock())
    sent = [Sending(scope, b"digest", key) for scope in ("s", None, "t") for key in ("k", None)]
    for sending in sent:
        retries.add(sending, await ended(sending.scope or "s"))
    await asyncio.sleep(0)

    retries.forget("s")

    found = [retries.find(replace(sending, count=1)) is not None for sending in sent]
    assert found == [False] * 4 + [True] * 2


async def test_a_deleted_session_s_running_call_answers_no_retry() -> None:
    """Nor when it ends afterwards; nothing is kept of it."""
    retries, go = Retries(10.0, 100, Clock()), asyncio.Event()

    async def slow() -> Taken:
        await go.wait()
        return await taken("s")

    task = WaitedTasks().start(slow(), may_cancel=lambda: False)
    retries.add(Sending("s", b"digest"), task)
    retries.forget("s")
    go.set()
    await task.wait()
    await asyncio.sleep(0)

    assert retries.find(Sending("s", b"digest", count=1)) is None
    assert not retries._scopes
    assert not retries._ended


async def test_of_a_call_that_failed_only_the_fact_is_kept() -> None:
    """Its error holds on to the whole request, which can be large."""

    class Request:
        """Something large."""

    retries, kept = Retries(10.0, 100, Clock()), []

    async def fail() -> Taken:
        request = Request()
        kept.append(weakref.ref(request))
        raise EngineUnavailable("no")

    retries.add(Sending("s", b"digest"), WaitedTasks().start(fail(), may_cancel=lambda: True))
    await asyncio.sleep(0.01)
    gc.collect()

    assert [reference() for reference in kept] == [None]
    retries.add(Sending("s", b"digest"), await ended("s"))
    assert retries.find(Sending("s", b"digest", count=1)) is None  # sampled, for the one that failed


async def test_nothing_is_kept_beyond_the_window() -> None:
    """A gateway that runs for months does not grow with its sessions."""
    clock = Clock()
    retries = Retries(10.0, 100, clock)
    for number in range(3):
        for key in ("k", None):
            retries.add(Sending(str(number), b"digest", key), await ended(str(number)))
    await asyncio.sleep(0)
    clock.now_s = 11.0

    assert retries.find(Sending("0", b"digest", count=1)) is None
    assert not retries._scopes
    assert not retries._ended


async def test_a_key_whose_call_failed_belongs_to_the_next_body() -> None:
    """Of a call that nobody was told of, nothing is promised."""
    retries = Retries(10.0, 100, Clock())

    async def fail() -> Taken:
        raise EngineUnavailable("no")

    task = WaitedTasks().start(fail(), may_cancel=lambda: True)
    retries.add(Sending("s", b"one", "k"), task)
    await asyncio.gather(task.wait(), return_exceptions=True)

    assert retries.find(Sending("s", b"two", "k")) is None
    other = await ended("s")
    retries.add(Sending("s", b"two", "k"), other)
    assert retries.find(Sending("s", b"two", "k")) is other
    with pytest.raises(BadRequest, match="another body"):
        retries.find(Sending("s", b"one", "k"))
