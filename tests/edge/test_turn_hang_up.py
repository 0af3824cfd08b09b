"""Clients that leave: the engine stops, what was sampled is kept as an aborted turn, and nothing extends it."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from gateway.render.protocol import MessageDict, ParsedResponse, Renderer, TokenHolder
from gateway.render.registry import Renderers
from gateway.sim import logprob
from tests.edge.house import HELLO, House, Json, OpenHouse, Words, until, user, waiting
from tests.edge.keeping import KeepingStore


async def test_the_engine_is_told_at_once(open_house: OpenHouse, words: Words) -> None:
    """Within two seconds of the client the engine's call is closed, and no turn is in flight."""
    house = await open_house(sim={"token_delay_s": 0.01})
    async with waiting(house, "s", HELLO, words.said("A long answer. " * 40)):
        await until(lambda: house.journal and len(house.journal[0].emitted) >= 3)

    await until(lambda: house.journal[0].disconnected)
    await house.idle()


@pytest.mark.parametrize("calls_before", [0, 1])
@pytest.mark.parametrize("how", ["slow", "stalled"])
async def test_what_was_sampled_is_one_aborted_turn(
    open_house: OpenHouse, words: Words, calls_before: int, how: str
) -> None:
    """Its ids are the first that the engine wrote, be it the session's first call or a later one."""
    store = KeepingStore()
    house = await open_house(store=store, sim={"token_delay_s": 0.01 if how == "slow" else 0})
    messages = await earlier(house, words, calls_before)
    if how == "stalled":
        house.faults.inject("stall", after=9)
    async with waiting(house, "s", messages, words.said("A long answer. " * 40)):
        await until(lambda: len(house.journal) > calls_before and len(house.journal[-1].emitted) >= 9)

    await house.idle()
    await until(lambda: recorded(house, calls_before + 1))
    shown, kept = (await house.turns("s"))[-1], store.turns[-1]
    assert (shown["status"], shown["finish_reason"]) == ("aborted", "abort")
    ids = kept.completion.ids.tolist()
    assert ids
    assert ids == house.journal[-1].emitted[: len(ids)]
    assert kept.completion.logprobs.tolist() == [
        logprob(at, token_id) for at, token_id in enumerate(ids, kept.prompt_length)
    ]
    assert kept.prompt_ids().tolist() == house.prompts[-1]
    assert len(await house.rows("s")) == calls_before


@pytest.mark.parametrize("calls_before", [0, 1])
async def test_the_next_call_never_extends_it(open_house: OpenHouse, words: Words, calls_before: int) -> None:
    """It attaches to the last complete turn, or starts anew."""
    house = await open_house()
    messages = await earlier(house, words, calls_before)
    house.faults.inject("stall", after=3)
    async with waiting(house, "s", messages, words.said("A long answer.")):
        await until(lambda: len(house.journal) > calls_before and len(house.journal[-1].emitted) == 3)
    await house.idle()
    left = await house.turns("s")

    again = await house.ask(
        "s", [*messages, {"role": "assistant", "content": "A l"}, user("Go on.")], words.said("Ok.")
    )
    retried = await house.ask("s", messages, words.said("Ok."))

    assert (again.status, retried.status) == (200, 200)
    turns = await house.turns("s")
    aborted = {turn["turn_id"] for turn in turns if turn["status"] == "aborted"}
    assert not aborted & {turn["parent_id"] for turn in turns}
    assert turns[-1]["parent_id"] == (left[0]["turn_id"] if calls_before else None)


@pytest.mark.parametrize("calls_before", [0, 1])
async def test_a_client_that_leaves_before_the_first_token_leaves_nothing(
    house: House, words: Words, calls_before: int
) -> None:
    """A first call leaves no session, a later one the turns as they were."""
    messages = await earlier(house, words, calls_before)
    before = await house.turns("s")
    house.faults.inject("stall", after=0)
    async with waiting(house, "s", messages, words.said("Hi.")):
        await until(lambda: len(house.journal) > calls_before)
    await until(lambda: house.journal[-1].disconnected)
    await house.idle()

    assert await house.turns("s") == before
    assert (await house.ask("s", messages, words.said("Hi."))).status == 200


async def test_a_client_that_leaves_while_its_prompt_is_rendered_costs_the_engine_nothing(
    open_house: OpenHouse, words: Words, renderers: Renderers
) -> None:
    """Nothing is recorded, no engine is asked, and the next call is served."""
    slow = SlowRenderer(renderers.get({}).renderer)
    house = await open_house(renderer=slow)
    slow.hold()
    async with waiting(house, "s", HELLO, words.said("Hi.")):
        await until(lambda: slow.waiting)
    await until(lambda: in_hand(house) == 0)
    slow.release()

    assert (await house.ask("t", HELLO, words.said("Hi."))).status == 200
    assert await house.turns("s") == []
    assert len(house.journal) == 1


async def test_a_client_that_leaves_the_queue_for_rendering_is_never_rendered(
    open_house: OpenHouse, words: Words, renderers: Renderers
) -> None:
    """Another call holds the one rendering thread meanwhile, and is served afterwards as if nothing had been."""
    slow = SlowRenderer(renderers.get({}).renderer)
    house = await open_house(renderer=slow)
    rendered = slow.rendered
    slow.hold()
    async with waiting(house, "s", HELLO, words.said("Hi.")) as first:
        await until(lambda: slow.waiting)
        async with waiting(house, "t", HELLO, words.said("Hi.")):
            await until(lambda: in_hand(house) == 2)
        await until(lambda: in_hand(house) == 1)
        slow.release()
        assert (await first).status == 200

    assert await house.turns("t") == []
    assert slow.rendered == rendered + 1
    assert len(house.journal) == 1


async def test_a_client_that_leaves_beside_another_of_its_session_disturbs_nothing(
    open_house: OpenHouse, words: Words
) -> None:
    """The other one's turn is recorded in full."""
    house = await open_house(sim={"token_delay_s": 0.005})
    async with waiting(house, "s", HELLO, words.said("Staying to the end.")) as stays:
        async with waiting(house, "s", HELLO, words.said("Leaving soon, long before the end.")):
            await until(lambda: len(house.journal) == 2 and all(entry.emitted for entry in house.journal))
        answer = await stays

    assert answer.message["content"] == "Staying to the end."
    await house.idle()
    await until(lambda: recorded(house, 2))
    statuses = [turn["status"] for turn in await house.turns("s")]
    assert sorted(statuses) == ["aborted", "complete"]
    (row,) = await house.rows("s")
    staying = next(at for at, entry in enumerate(house.journal) if entry.finished)
    assert row["token_ids"] == house.prompts[staying] + house.journal[staying].emitted


async def test_hanging_up_frees_the_connection_for_others(house: House, words: Words) -> None:
    """A hundred clients that leave one after the other take nothing from those that stay."""
    for _ in range(20):
        house.faults.inject("stall", after=1, times=5)
        calls = [asyncio.ensure_future(house.ask("s", HELLO, words.said("Hi."))) for _ in range(5)]
        await until(lambda: house.journal and house.journal[-1].emitted and not house.faults)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    await house.idle()

    assert (await house.ask("s", HELLO, words.said("Hi."))).status == 200


async def earlier(house: House, words: Words, calls: int) -> list[Json]:
    """A history of so many turns, and the user's next line."""
    messages = list(HELLO)
    for _ in range(calls):
        answer = await house.ask("s", messages, words.said("Hi."))
        messages += [answer.message, user("And?")]
    return messages


async def recorded(house: House, count: int) -> bool:
    """Whether the session has so many turns."""
    return len(await house.turns("s")) == count


def in_hand(house: House) -> int:
    """How many requests the gateway's server is answering. Of one that waits for rendering nothing else is seen."""
    handlers = house.http.server.handler
    assert handlers is not None
    return sum(connection._request_in_progress for connection in handlers.connections)


class SlowRenderer:
    """A renderer that can be held up: it renders only when it is released."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._open = threading.Event()
        self._open.set()
        self.rendered = 0
        self.waiting = False

    def hold(self) -> None:
        """Render nothing from now on."""
        self._open.clear()

    def release(self) -> None:
        """Render what waits, and go on."""
        self._open.set()

    def render_ids(
        self,
        messages: list[MessageDict],
        *,
        tools: list[MessageDict] | None = None,
        add_generation_prompt: bool = False,
    ) -> Sequence[int]:
        """As the renderer has it, when it may."""
        self.waiting = True
        assert self._open.wait(5)
        self.waiting = False
        self.rendered += 1
        return self._renderer.render_ids(messages, tools=tools, add_generation_prompt=add_generation_prompt)

    def parse_response(self, token_ids: list[int]) -> ParsedResponse:
        """As the renderer has it."""
        return self._renderer.parse_response(token_ids)

    def get_stop_token_ids(self) -> Sequence[int]:
        """As the renderer has it."""
        return self._renderer.get_stop_token_ids()

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: list[MessageDict],
        *,
        tools: list[MessageDict] | None = None,
    ) -> Sequence[int] | TokenHolder | None:
        """As the renderer has it."""
        return self._renderer.bridge_to_next_turn(
            previous_prompt_ids, previous_completion_ids, new_messages, tools=tools
        )
