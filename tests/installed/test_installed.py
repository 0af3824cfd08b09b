"""What a user has who installed the wheel, and nothing of this tree."""

import json
from pathlib import Path

from tests.installed.conftest import Run

THREE_LINES = """\
def test_my_agent(gateway):
    with gateway.session("task").openai() as agent:
        agent.chat.completions.create(model="rollout-gateway/demo", messages=[{"role": "user", "content": "Hello"}])
    assert gateway.known_session("task").rows()
"""
LAUNCHED = """
import asyncio
from gateway.client import AsyncGatewayClient, launch, simulated_engine

MESSAGES = [{"role": "user", "content": "Hello"}]

async def awaited(url):
    async with AsyncGatewayClient(url, admin_key="k") as gateway:
        session = await gateway.session(group_id="g")
        async with session.openai() as agent:
            await agent.chat.completions.create(model="rollout-gateway/demo", messages=MESSAGES)
        async with gateway.paused("step-1"):
            pass
        await session.finish(reward=0.5)
        return [row["reward"] async for row in gateway.rows(group_id="g")]

with simulated_engine(ranks=2) as engine:
    with launch(model="rollout-gateway/demo", engine=[engine], admin_key="k") as gateway:
        session = gateway.session(group_id="g")
        with session.openai() as agent:
            agent.chat.completions.create(model="rollout-gateway/demo", messages=MESSAGES)
        with gateway.paused(policy_version="step-0"):
            pass
        session.finish(reward=1.0)
        print([row["reward"] for row in gateway.rows(group_id="g")], asyncio.run(awaited(gateway.url)))
        print(gateway.policy()["version"], len(gateway.engines()[0]["ranks"]))
"""
MINE = """
from types import SimpleNamespace

from gateway.render.registry import load_tokenizer

class Plain:
    def __init__(self):
        self.tokenizer = load_tokenizer("rollout-gateway/demo", "rollout-gateway/demo")
        self.end = self.tokenizer.convert_tokens_to_ids("<|im_end|>")

    def render_ids(self, messages, *, tools=None, add_generation_prompt=False):
        return self.tokenizer.encode("".join(f"{m['role']}: {m['content']}\\n" for m in messages), add_special_tokens=False)

    def parse_response(self, token_ids):
        text = self.tokenizer.decode([token_id for token_id in token_ids if token_id != self.end])
        return SimpleNamespace(content=f"plainly: {text}", reasoning_content=None, tool_calls=[])

    def get_stop_token_ids(self):
        return [self.end]

    def bridge_to_next_turn(self, prompt, completion, new_messages, *, tools=None):
        return [*prompt, *completion, *self.render_ids(new_messages)]
"""
AGENT = """
from openai import OpenAI

with OpenAI() as client:
    model = client.models.list().data[0].id
    messages = []
    for question in ("How is the weather in Bern?", "And in Chur?", "Thanks!"):
        messages.append({"role": "user", "content": question})
        messages.append(client.chat.completions.create(model=model, messages=messages).choices[0].message)
"""
IN_THREAD = """
from gateway.client import serve_in_thread, simulated_engine
from mine import Plain

with simulated_engine() as engine, serve_in_thread(model="rollout-gateway/demo", engine=[engine], renderer=Plain()) as gateway:
    session = gateway.session()
    with session.openai() as agent:
        messages = [{"role": "user", "content": "Hello"}]
        for text in ("And?", "So?"):
            said = agent.chat.completions.create(model="rollout-gateway/demo", messages=messages).choices[0].message
            messages += [{"role": "assistant", "content": said.content}, {"role": "user", "content": text}]
    (row,) = session.rows()
    print(said.content.startswith("plainly: "), [turn["how"] for turn in row["turns"]])
"""


def test_the_package_is_the_installed_one(run: Run, environment: Path) -> None:
    """Not this tree's."""
    shown = run("python", "-c", "import gateway; print(gateway.__file__)")

    assert shown.startswith(f"{environment}/")


def test_an_agent_is_tested_in_three_lines(run: Run) -> None:
    """The plugin is found by itself."""
    assert "1 passed" in run("pytest", "-q", "-W", "error", test_mine=THREE_LINES)


def test_a_program_that_has_the_gateway_may_run_tests(run: Run) -> None:
    """The plugin that comes along makes no warning of it."""
    program = "import sys, gateway.client, pytest; sys.exit(pytest.main(['-W', 'error', 'test_it.py']))"

    assert "1 passed" in run("python", "-W", "error", "-c", program, test_it="def test_it(): pass")


def test_both_clients_speak_to_a_launched_gateway(run: Run) -> None:
    """Turns, rewards, rows, a pause and a policy, in one program."""
    shown = run("python", "-W", "error", "trainer.py", trainer=LAUNCHED)

    assert shown.splitlines() == ["[1.0] [1.0, 0.5]", "step-1 2"]


def test_a_gateway_in_a_thread_has_a_renderer_of_the_users_own(run: Run) -> None:
    """From a module beside the program."""
    shown = run("python", "-W", "error", "program.py", program=IN_THREAD, mine=MINE)

    assert shown.splitlines()[-1] == "True ['rendered', 'bridged']"


def test_the_doctor_examines_an_agent(run: Run) -> None:
    """One that sends back what it was answered, with nothing but the openai package."""
    report = json.loads(run("gateway", "doctor", "--json", "--", "python", "agent.py", agent=AGENT))

    assert report["verdict"] == "keeps"
    assert report["exit_code"] == 0
    assert report["turns"] == 3
    assert report["breaks"] == []
    assert report["simulated"] is True


def test_the_command_is_there_by_both_names(run: Run) -> None:
    """And says what it can do."""
    for name in ("gateway", "rollout-gateway"):
        assert "serve" in run(name, "--help")
