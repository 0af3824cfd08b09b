"""Examinations of small harnesses, in this process; what a harness has is a process of its own."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gateway.doctor.agent import Agent
from gateway.doctor.report import Report
from gateway.doctor.run import Engine, examined
from gateway.render import registry

Json = dict[str, Any]
Examine = Callable[..., Awaitable[Json]]

AGENTS = Path(__file__).parent / "agents.py"
SCHEMA = json.loads((Path(__file__).parents[2] / "docs/doctor.schema.json").read_text())

_load_tokenizer: Callable[..., Any] = cache(registry.load_tokenizer)


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading the tokenizer takes a second: once a session is enough."""
    monkeypatch.setattr(registry, "load_tokenizer", _load_tokenizer)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)


def held_to_schema(report: Report) -> Json:
    """A report as JSON, as it is promised."""
    told: Json = json.loads(json.dumps(report.as_object()))
    Draft202012Validator(SCHEMA).validate(told)
    return told


@pytest.fixture
def report_on() -> Callable[..., Awaitable[Report]]:
    """Examine the harness of a habit."""

    async def run(habit: str, *, timeout_s: float = 60.0, **engine: Any) -> Report:
        return await examined(Agent([sys.executable, str(AGENTS), habit], timeout_s), Engine(**engine))

    return run


@pytest.fixture
def examine(report_on: Callable[..., Awaitable[Report]]) -> Examine:
    """Examine the harness of a habit: the report as JSON, held to its schema."""

    async def run(habit: str, **options: Any) -> Json:
        return held_to_schema(await report_on(habit, **options))

    return run


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(120):
        while not true():
            await asyncio.sleep(0.02)
