"""`gateway doctor` of the installed wheel, on an agent that is nothing but a program of the user's."""

import json

from tests.installed.conftest import Run

AGENT = """
from openai import OpenAI

client = OpenAI()  # reads OPENAI_BASE_URL
model = client.models.list().data[0].id
messages = []
for question in ("How is the weather in Bern?", "And in Chur?", "Thanks!"):
    messages.append({"role": "user", "content": question})
    answer = client.chat.completions.create(model=model, messages=messages)
    messages.append(answer.choices[0].message)
"""


def test_an_agent_is_looked_at(run: Run) -> None:
    """It keeps its prefix; standard output is the report, and nothing else."""
    report = json.loads(run("gateway", "doctor", "--json", "--", "python", "agent.py", agent=AGENT))

    assert (report["verdict"], report["turns"], report["breaks"]) == ("keeps", 3, [])
