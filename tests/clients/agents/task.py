"""What every agent is asked, and the one tool it has.

Each is run as ``python -m … BASE_URL [stream]`` and prints its answers.
"""

import json
import sys
from collections.abc import Sequence

MODEL = "rollout-gateway/demo"
SYSTEM = "Du bist ein Wetterdienst. Use the tool."
QUESTIONS = ("How is the weather in Zürich?", "And in Bern and Genève?\n", "  Thanks!")
DESCRIPTION = "The weather of a city"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": DESCRIPTION,
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "number"}},
                "required": ["city", "days"],
            },
        },
    }
]


def weather(city: str, days: float) -> str:
    """What the tool says."""
    return f"  {city}: ☀ for {days:g} days\n"


def base_url() -> str:
    """Where the gateway's session is."""
    return sys.argv[1]


def streams() -> bool:
    """Whether the model's answers are to be streamed."""
    return sys.argv[2:] == ["stream"]


def report(answers: Sequence[object]) -> None:
    """Tell the test what the user of this agent saw, question by question."""
    sys.stdout.write(json.dumps(list(answers)) + "\n")
