"""The application as a library makes it: what it is given, what it refuses, and how it ends."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from aiohttp.test_utils import TestServer

from gateway.app import create_app
from gateway.errors import ConfigError
from gateway.render.protocol import MessageDict
from gateway.render.registry import Renderers
from gateway.settings import Settings
from gateway.sim import JOURNAL, create_sim
from tests.edge.house import HELLO, MODEL_NAME, House, OpenHouse, Words, serving, until, user
from tests.edge.keeping import KeepingStore


async def test_a_renderer_of_ones_own_takes_no_template_arguments(
    open_house: OpenHouse, words: Words, renderers: Renderers
) -> None:
    """It is one object, made elsewhere: nothing would heed them."""
    house = await open_house(renderer=renderers.get({}).renderer)

    refused = await house.ask("s", chat_template_kwargs={"enable_thinking": False})
    served = await house.ask("s", HELLO, words.said("Hi."), chat_template_kwargs={})

    assert refused.status == 400
    assert refused.error["param"] == "chat_template_kwargs"
    assert served.status == 200


class Broken:
    """A renderer that renders, and breaks its contract where it is told to."""

    def __init__(self, stop_id: int, where: str | None) -> None:
        self._stop_id = stop_id
        self.where = where

    def render_ids(
        self,
        messages: list[MessageDict],
        *,
        tools: list[MessageDict] | None = None,
        add_generation_prompt: bool = False,
    ) -> Sequence[int]:
        if self.where == "render":
            raise KeyError("swordfish")
        return [1, 2, 3]

    def parse_response(self, token_ids: list[int]) -> SimpleNamespace:
        if self.where == "parse":
            raise KeyError("swordfish")
        return SimpleNamespace(content="parsed", reasoning_content=None, tool_calls=[])

    def get_stop_token_ids(self) -> Sequence[int]:
        return [self._stop_id]

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: list[MessageDict],
        *,
        tools: list[MessageDict] | None = None,
    ) -> Sequence[int] | None:
        if self.where == "bridge":
            raise KeyError("swordfish")
        return [*previous_prompt_ids, *previous_completion_ids, 4]


@pytest.mark.parametrize(("where", "asked"), [("render", 0), ("bridge", 0), ("parse", 1)])
async def test_a_renderer_that_breaks_its_contract_is_500_and_no_turn(
    open_house: OpenHouse, where: str, asked: int
) -> None:
    """Nothing complete is recorded, and the next call is served."""
    renderer = Broken(151645, None)
    house = await open_house(renderer=renderer)
    first = await house.ask("s", HELLO, [5, 6])
    messages = [*HELLO, first.message, user("And?")] if where != "render" else [user("Another.")]
    renderer.where = where

    answer = await house.ask("s", messages, [5, 6])

    assert answer.status == 500
    assert answer.error["code"] == "renderer_error"
    assert len(house.journal) == 1 + asked
    assert [turn["status"] for turn in await house.turns("s")].count("complete") == 1
    assert await house.metric("gateway_turns_in_flight") == 0
    renderer.where = None
    assert (await house.ask("s", messages, [5, 6])).status == 200


def test_a_model_that_no_renderer_knows_is_refused_with_three_remedies(tokenizer_folder: str) -> None:
    """In one line, which names the model."""
    with pytest.raises(ConfigError) as refused:
        create_app(Settings(model=tokenizer_folder, model_name="nobody/nothing-7B"))

    message = str(refused.value)
    assert "\n" not in message
    for word in ("nobody/nothing-7B", "--model-name", "--renderer", "--allow-bridgeless"):
        assert word in message


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: object) -> None:
    """In one line, which names the setting and the folder."""
    with pytest.raises(ConfigError) as refused:
        create_app(Settings(model=str(tmp_path), model_name=MODEL_NAME))

    assert str(refused.value).startswith(f"--model {tmp_path}")
    assert "\n" not in str(refused.value)


async def test_without_a_bridge_each_turn_is_a_row_of_its_own(open_house: OpenHouse, words: Words) -> None:
    """If the operator accepts that; rows stay true."""
    house = await open_house(model_name="nobody/nothing-7B", allow_bridgeless=True)
    first = await house.ask("s", HELLO, words.said("Hi."))
    second = await house.ask("s", [*HELLO, first.message, user("And?")], words.said("Yes."))

    assert (first.status, second.status) == (200, 200)
    turns, rows = await house.turns("s"), await house.rows("s")
    assert [turn["how"] for turn in turns] == ["rendered", "rendered"]
    assert turns[1]["parent_id"] == turns[0]["turn_id"]
    scripts = [words.said("Hi."), words.said("Yes.")]
    assert [row["token_ids"] for row in rows] == [
        prompt + script for prompt, script in zip(house.prompts, scripts, strict=True)
    ]


async def test_the_application_ends_when_the_last_turn_is_kept(
    tokenizer_folder: str, open_house: OpenHouse, words: Words
) -> None:
    """A turn whose client has left is recorded before the engines are closed."""
    store, sim = KeepingStore(), create_sim()
    async with serving(sim) as engine:
        settings = Settings(model=tokenizer_folder, model_name=MODEL_NAME, engine=(str(engine.make_url("")),))
        server = TestServer(create_app(settings, store=store))
        house = await open_house(engine=("http://127.0.0.1:1",))
        await server.start_server()
        store.hold()
        client = asyncio.ensure_future(
            House(house.http, sim).call(
                "POST",
                str(server.make_url("/v1/chat/completions")),
                data=b'{"messages": [{"role": "user", "content": "?"}]}',
            )
        )
        await until(lambda: store.waiting)
        client.cancel()
        await asyncio.gather(client, return_exceptions=True)
        ending = asyncio.ensure_future(server.close())
        await asyncio.sleep(0.05)
        ended_early = ending.done()
        store.release()
        await ending

    assert not ended_early
    assert [turn.status for turn in store.turns] == ["complete"]
    assert sim[JOURNAL].running == 0


async def test_two_gateways_live_in_one_process(open_house: OpenHouse, words: Words) -> None:
    """They share nothing."""
    one, two = await open_house(), await open_house()
    await one.ask("s", HELLO, words.said("Hi."))

    assert len(await one.turns("s")) == 1
    assert await two.turns("s") == []
    assert await two.metric("gateway_turns_total") == 0
