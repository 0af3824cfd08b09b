"""The application as a library makes it: what it is given, what it refuses, and how it ends."""

import asyncio
import gc
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from gateway.app import create_app, serve
from gateway.edge.backends import Backends
from gateway.edge.pause import Pauses
from gateway.errors import ConfigError
from gateway.render import demo
from gateway.render.protocol import MessageDict
from gateway.render.registry import Renderers
from gateway.settings import Settings
from gateway.sim import JOURNAL, create_sim
from tests.edge.house import HELLO, MODEL_NAME, House, OpenHouse, Words, serving, until, user
from tests.edge.keeping import KeepingStore

BRIDGELESS: dict[str, Any] = {"renderer": "prime", "renderer_name": "default"}
"""PrimeIntellect's fallback, which renders by the template and never bridges."""


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


async def test_a_client_cannot_have_a_template_of_its_own_rendered(open_house: OpenHouse, words: Words) -> None:
    """It could take forever, and everybody's turns with it."""
    house = await open_house(renderer="template")
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"

    refused = await house.ask("s", chat_template_kwargs={"chat_template": endless})
    served = await house.ask("s", HELLO, words.said("Hi."))

    assert (refused.status, refused.error["param"]) == (400, "chat_template_kwargs")
    assert served.status == 200


async def test_what_was_there_at_the_start_is_none_of_the_collectors_business() -> None:
    """To walk through it would hold the loop for a tenth of a second, amid turns."""
    gc.unfreeze()
    ready = asyncio.Event()
    settings = Settings(model=demo.MODEL_NAME, engine=("http://127.0.0.1:9",), port=0)
    serves = asyncio.create_task(serve(settings, lambda _url: ready.set()))
    try:
        await asyncio.wait_for(ready.wait(), 30)
        assert gc.get_freeze_count() > 10_000
    finally:
        serves.cancel()
        await asyncio.gather(serves, return_exceptions=True)
        gc.unfreeze()


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


def test_a_renderer_that_never_bridges_is_refused_with_three_remedies(tokenizer_folder: str) -> None:
    """In one line, which names the model."""
    with pytest.raises(ConfigError) as refused:
        create_app(Settings(model=tokenizer_folder, model_name="nobody/nothing-7B", **BRIDGELESS))

    message = str(refused.value)
    assert "\n" not in message
    for word in ("nobody/nothing-7B", "--model-name", "--renderer", "--allow-bridgeless"):
        assert word in message


def test_which_renderer_serves_and_why_is_logged_once(tokenizer_folder: str) -> None:
    """Also where the weights are a folder, and the settings name the renderer."""
    with capture_logs() as lines:
        create_app(Settings(model=tokenizer_folder, model_name="mine/tuned", renderer_name="qwen3"))

    (told,) = [line for line in lines if line["event"] == "a renderer was chosen"]
    assert (told["backend"], told["renderer"], told["why"]) == ("prime", "qwen3", "--renderer-name qwen3")


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("renderer_config", '{"nonsense": 1}', "nonsense"),
        ("renderer_name", "qwen33", "qwen33.*qwen3"),
        ("render_url", "http://127.0.0.1:1", "remote takes it"),
        ("tool_format", "hermes", "template and remote take it"),
    ],
)
def test_a_setting_that_the_renderer_does_not_heed_is_refused(
    tokenizer_folder: str, setting: str, value: str, says: str
) -> None:
    """In one line, which names the setting."""
    with pytest.raises(ConfigError, match=says) as refused:
        said: dict[str, Any] = {
            "model": tokenizer_folder,
            "model_name": MODEL_NAME,
            "renderer": "prime",
            setting: value,
        }
        create_app(Settings(**said))

    assert f"--{setting.replace('_', '-')}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: object) -> None:
    """In one line, which names the setting and the folder."""
    with pytest.raises(ConfigError) as refused:
        create_app(Settings(model=str(tmp_path), model_name=MODEL_NAME))

    assert str(refused.value).startswith(f"--model {tmp_path}")
    assert "\n" not in str(refused.value)


async def test_without_a_bridge_each_turn_is_a_row_of_its_own(open_house: OpenHouse, words: Words) -> None:
    """If the operator accepts that; rows stay true."""
    house = await open_house(model_name="nobody/nothing-7B", allow_bridgeless=True, **BRIDGELESS)
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


async def test_what_fails_at_the_end_leaves_nothing_else_open(
    tokenizer_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Engines are closed, and no loop goes on."""
    closed, close = [], Backends.close

    async def failing(_pauses: Pauses) -> None:
        raise KeyError("swordfish")

    async def noted(backends: Backends) -> None:
        closed.append(backends)
        await close(backends)

    monkeypatch.setattr(Pauses, "close", failing)
    monkeypatch.setattr(Backends, "close", noted)
    before = asyncio.all_tasks()
    server = TestServer(create_app(Settings(model=tokenizer_folder, model_name=MODEL_NAME)))
    await server.start_server()

    with pytest.raises(KeyError):
        await server.close()

    assert len(closed) == 1
    assert asyncio.all_tasks() == before
