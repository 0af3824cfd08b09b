"""Renders that wait for a network wait side by side; those that compute come one by one."""

import asyncio
from threading import Barrier
from typing import Any

import pytest

from gateway.render.registry import Renderers
from gateway.render.render_server import RenderServer
from tests.edge.house import OpenHouse, Words, until
from tests.render.render_double import DRIPS, render_double


class Meeting:
    """A renderer whose renders wait for each other, once that is asked of them."""

    def __init__(self, renderers: Renderers, calls_at_once: int | None) -> None:
        self._renderer = renderers.get({}).renderer
        if calls_at_once is not None:
            self.calls_at_once = calls_at_once
        self.meeting: Barrier | None = None
        self.server: RenderServer | None = None
        """What is asked before each render."""

    def render_ids(self, messages: Any, **options: Any) -> Any:
        if self.meeting is not None:
            self.meeting.wait(5 if hasattr(self, "calls_at_once") else 0.3)
        if self.server is not None:
            self.server.ask("/", {})
        return self._renderer.render_ids(messages, **options)

    def parse_response(self, token_ids: Any) -> Any:
        return self._renderer.parse_response(token_ids)

    def get_stop_token_ids(self) -> Any:
        return self._renderer.get_stop_token_ids()

    def bridge_to_next_turn(self, *arguments: Any, **options: Any) -> Any:
        return self._renderer.bridge_to_next_turn(*arguments, **options)


@pytest.mark.parametrize("calls_at_once", [8, None])
async def test_as_many_prompts_are_rendered_at_once_as_the_renderer_says(
    open_house: OpenHouse, renderers: Renderers, words: Words, calls_at_once: int | None
) -> None:
    """Eight agents, whose renders end only when all have begun; a renderer that says nothing does one at a time."""
    renderer = Meeting(renderers, calls_at_once)
    house = await open_house(renderer=renderer)
    renderer.meeting = Barrier(8)

    answers = await asyncio.gather(*(house.ask(f"s{number}", script=words.said("ok")) for number in range(8)))

    assert {answer.status for answer in answers} == ({200} if calls_at_once else {500})
    assert renderer.meeting.broken is (calls_at_once is None)


async def test_a_client_that_hangs_up_gives_the_thread_back_that_waits_for_its_prompt(
    open_house: OpenHouse, renderers: Renderers, words: Words
) -> None:
    """The only one, to another session, long before the server that renders has answered."""
    renderer = Meeting(renderers, None)
    house = await open_house(renderer=renderer)
    with render_double() as double:
        double.says(DRIPS, {})
        renderer.server = RenderServer(double.url)
        left = asyncio.create_task(house.ask("s", script=words.said("ok")))
        await until(lambda: double.asked)
        left.cancel()
        async with asyncio.timeout(5):
            assert (await house.ask("t", script=words.said("ok"))).status == 200
