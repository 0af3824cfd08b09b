"""Tools for a model of which nobody knows how it writes calls."""

from gateway.render.discovery import AnswerFormat
from tests.edge.house import TOOLS, OpenHouse, user
from tests.render.doubles import LetterRenderer, PlainTokenizer


async def test_a_request_with_tools_is_refused_and_one_without_is_served(open_house: OpenHouse) -> None:
    """The client is told whose it is to help, before anything is sampled or recorded."""
    renderer = LetterRenderer()
    renderer.answers = AnswerFormat("text only", "its template writes no calls", PlainTokenizer(), takes_tools=False)  # type: ignore[attr-defined]  # as a renderer may have it
    house = await open_house(renderer=renderer)

    said = [ord(letter) for letter in f"ok{LetterRenderer.END}"]
    refused = await house.ask("s", [user("hi")], said, tools=TOOLS)
    assert refused.status == 400
    assert refused.body["error"]["param"] == "tools"
    assert "--tool-format" in refused.body["error"]["message"]
    assert (await house.ask("s", [user("hi")], said)).status == 200
    assert len(house.prompts) == 1
