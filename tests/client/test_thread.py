"""A gateway in a thread of this process, which leaves nothing behind."""

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.client import GatewayCallError, GatewayClient, GatewayConnectionError, serve_in_thread
from gateway.errors import ConfigError
from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.render.registry import load_tokenizer
from gateway.settings import Settings
from tests.client.both import connected
from tests.client.conftest import ask
from tests.simulated import simulated


class Plain:
    """A renderer as a user would write one: roles and texts, and nothing that the model's template has."""

    def __init__(self) -> None:
        self.tokenizer: Any = load_tokenizer(MODEL_NAME, MODEL_NAME)
        self.end: int = self.tokenizer.get_vocab()["<|im_end|>"]

    def render_ids(self, messages: Any, *, tools: Any = None, add_generation_prompt: bool = False) -> list[int]:
        """The prompt."""
        text = "".join(f"{message['role']}: {message['content']}\n" for message in messages)
        return self._ids(text + "assistant:" * add_generation_prompt)

    def parse_response(self, token_ids: Any) -> Any:
        """What was said."""
        text = self.tokenizer.decode([token_id for token_id in token_ids if token_id != self.end])
        return type("Said", (), {"content": f"plainly: {text}", "reasoning_content": None, "tool_calls": []})()

    def get_stop_token_ids(self) -> list[int]:
        """The end."""
        return [self.end]

    def bridge_to_next_turn(self, prompt: Any, completion: Any, messages: Any, *, tools: Any = None) -> list[int]:
        """What follows."""
        return [*prompt, *completion, *self.render_ids(messages, add_generation_prompt=True)]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids


def sockets() -> int:
    """How many sockets this process has open."""
    return sum(_is_socket(file) for file in Path("/proc/self/fd").iterdir())


def _is_socket(file: Path) -> bool:
    with suppress(OSError):
        return str(file.readlink()).startswith("socket:")
    return False


def own_threads() -> set[threading.Thread]:
    """All but the one that writes the log, which is the process's own."""
    return {thread for thread in threading.enumerate() if thread.name != "log"}


def test_it_serves_with_a_renderer_of_ones_own(engine_url: str) -> None:
    """An object of this process, which no setting could name."""
    with serve_in_thread(model=MODEL_NAME, engine=(engine_url,), renderer=Plain()) as gateway:
        session = gateway.session()
        answer = ask(session)
        (row,) = session.rows()

    assert answer.startswith("plainly: ")
    assert Plain().tokenizer.decode(row["token_ids"]).startswith("user: Hello\nassistant:")


def test_settings_come_as_an_object_or_by_name(engine_url: str) -> None:
    """Not both. The port is a free one, whatever the default is."""
    settings = Settings(model=MODEL_NAME, engine=(engine_url,), max_turns=1)
    with serve_in_thread(settings) as gateway:
        assert not gateway.url.endswith(f":{settings.port}")
        assert gateway.session().show()["budget"]["max_turns"] == 1

    with pytest.raises(TypeError, match="leave out max_turns"), serve_in_thread(settings, max_turns=2):
        pytest.fail("it serves")


def test_a_port_that_is_named_is_taken(engine_url: str) -> None:
    """And one that is taken already is an error, behind which nothing is left."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"), serve_in_thread(model=MODEL_NAME, engine=(engine_url,), port=port):
            pytest.fail("it serves")
    with serve_in_thread(model=MODEL_NAME, engine=(engine_url,), port=port) as gateway:
        assert gateway.url == f"http://127.0.0.1:{port}"


def test_its_client_has_the_keys(engine_url: str) -> None:
    """And nobody else gets in."""
    admin_key, agent_key = SecretStr("admin"), SecretStr("agent")
    settings = Settings(model=MODEL_NAME, engine=(engine_url,), admin_key=admin_key, agent_key=agent_key)
    with serve_in_thread(settings) as gateway:
        assert gateway.session().openai().api_key == "agent"
        with GatewayClient(gateway.url, agent_key="agent") as agent, pytest.raises(GatewayCallError) as caught:
            agent.policy()
    assert caught.value.code == "forbidden"


def test_what_is_ill_is_raised_where_it_was_asked_for(tmp_path: Path) -> None:
    """As by `create_app`, from the thread."""
    before = own_threads()
    with pytest.raises(ConfigError, match="tokenizer"), serve_in_thread(model=str(tmp_path)):
        pytest.fail("it serves")
    assert own_threads() == before


def test_neither_threads_nor_sockets_are_left(engine_url: str) -> None:
    """Of the gateway, of its clients and of its calls to the engine, when a block ends or fails."""
    threads, open_sockets = own_threads(), sockets()
    for kind in ("waiting", "awaited"):
        with pytest.raises(ZeroDivisionError), serve_in_thread(model=MODEL_NAME, engine=(engine_url,)) as gateway:
            with connected(kind, gateway.url) as client, client.paused():
                client.session()
            ask(gateway.session())
            assert own_threads() > threads
            raise ZeroDivisionError
        with pytest.raises(GatewayConnectionError), GatewayClient(gateway.url, patience_s=0) as late:
            late.policy()

    until_s = time.monotonic() + 10
    while (own_threads() != threads or sockets() > open_sockets) and time.monotonic() < until_s:
        time.sleep(0.01)  # a pool's threads end by themselves, when they are told, and so do the engine's sockets
    assert own_threads() == threads
    assert sockets() <= open_sockets


def test_a_turn_in_flight_ends_before_the_gateway_does() -> None:
    """Its agent is answered."""
    answers: list[str] = []
    with simulated(tokenizer=FOLDER, model=MODEL_NAME, first_token_delay_s=0.4) as (engine_url, _):
        with serve_in_thread(model=MODEL_NAME, engine=(engine_url,)) as gateway:
            session = gateway.session()
            agent = threading.Thread(target=lambda: answers.append(ask(session)))
            agent.start()
            while not session.show()["turns_in_flight"]:
                time.sleep(0.01)
        agent.join()
    assert len(answers) == 1
