"""mini-swe-agent: its default agent with a bash in the current folder."""

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

from tests.clients.agents.task import MODEL, base_url, report

model = LitellmModel(
    model_name=f"openai/{MODEL}",
    model_kwargs={"api_base": base_url(), "api_key": "unused", "num_retries": 0},
    cost_tracking="ignore_errors",
)
agent = DefaultAgent(
    model, LocalEnvironment(timeout=10), system_template="You are at a shell.", instance_template="{{task}}"
)
report([agent.run("Find the file, and say what is in it.")["submission"]])
