"""What each package makes of a prompt that does not fit into the context: the name of the error that it raises."""

from collections.abc import Callable
from typing import Any

import litellm
from agents import Agent as RunnerAgent
from agents import OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, BadRequestError, OpenAI, OpenAIError
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.agents.task import MODEL, base_url, report

PROMPT = "word " * 50_000
AT: dict[str, Any] = {"base_url": base_url(), "api_key": "unused", "max_retries": 0}

set_tracing_disabled(disabled=True)


def with_openai() -> object:
    """The SDK says the code."""
    return OpenAI(**AT).chat.completions.create(model=MODEL, messages=[{"role": "user", "content": PROMPT}])


def with_litellm() -> object:
    """mini-swe-agent has the same error, and stops at it."""
    messages = [{"role": "user", "content": PROMPT}]
    return litellm.completion(
        model=f"openai/{MODEL}", api_base=base_url(), api_key="unused", num_retries=0, messages=messages
    )


def with_langchain() -> object:
    return ChatOpenAI(model=MODEL, **AT).invoke(PROMPT)


def with_openai_agents() -> object:
    model = OpenAIChatCompletionsModel(model=MODEL, openai_client=AsyncOpenAI(**AT))
    return Runner.run_sync(RunnerAgent(name="agent", model=model), PROMPT)


def with_pydantic_ai() -> object:
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=AsyncOpenAI(**AT)))
    return Agent(model).run_sync(PROMPT)


def raised(call: Callable[[], object]) -> str:
    """The name of the error, with its code where the SDK's own error has no name for it."""
    try:
        call()
    except (OpenAIError, ModelAPIError) as error:
        return str(error.code) if type(error) is BadRequestError else type(error).__name__
    return "nothing"


report([raised(call) for call in (with_openai, with_litellm, with_langchain, with_openai_agents, with_pydantic_ai)])
