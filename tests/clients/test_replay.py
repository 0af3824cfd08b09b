"""What a client did to one answer is done to another."""

import pytest

from tests.clients.replay import Json, Untraceable, replayed_like


def answer(content: str | None, arguments: str, call_id: str, **more: object) -> Json:
    """An assistant's message with one call."""
    call = {"id": call_id, "type": "function", "function": {"name": "look", "arguments": arguments}}
    return {"role": "assistant", "content": content, "tool_calls": [call], **more}


SENT = answer("\n  Yes. \n", '{ "a" : "\\u00e9" }', "then", reasoning_content=" why ", reasoning=" why ", own="x")
OURS = answer(" No.\n", '{"b": "ü"}', "now", reasoning_content="because ", reasoning="because ")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({}, {}, id="kept"),
        pytest.param({"content": "Yes."}, {"content": "No."}, id="stripped"),
        pytest.param({"content": "\n\n  Yes. \n"}, {"content": "\n\n  No. \n"}, id="a line before"),
        pytest.param({"content": None}, {"content": None}, id="emptied"),
        pytest.param(
            {"content": [{"type": "text", "text": "\n  Yes. \n"}]},
            {"content": [{"type": "text", "text": " No.\n"}]},
            id="in parts",
        ),
        pytest.param({"refusal": None}, {"refusal": None}, id="added"),
        pytest.param({"thought": "why"}, {"thought": "because"}, id="renamed and stripped"),
        pytest.param(
            {"fields": {"reasoning": " why ", "own": "x"}},
            {"fields": {"reasoning": "because ", "own": "x"}},
            id="moved",
        ),
    ],
)
def test_what_happened_to_a_field_happens_to_ours(change: Json, expected: Json) -> None:
    """Fields that a client leaves as they are come back as ours are, under each name."""
    kept = {"reasoning_content": "because ", "reasoning": "because ", "own": "x"}
    assert replayed_like(SENT, SENT | change, OURS) == OURS | kept | expected


def test_what_a_client_drops_is_dropped() -> None:
    replayed = {"role": "assistant", "content": SENT["content"]}
    assert replayed_like(SENT, replayed, OURS) == {"role": "assistant", "content": OURS["content"]}


@pytest.mark.parametrize(
    ("spelt", "expected"),
    [
        ('{ "a" : "\\u00e9" }', '{"b": "ü"}'),
        ('{"a": "é"}', '{"b": "ü"}'),
        ('{"a": "\\u00e9"}', '{"b": "\\u00fc"}'),
        ('{"a":"é"}', '{"b":"ü"}'),
        ({"a": "é"}, {"b": "ü"}),
    ],
)
def test_arguments_are_spelt_as_the_client_spells(spelt: object, expected: object) -> None:
    call = {"id": "then", "index": 0, "function": {"name": "look", "arguments": spelt, "parsed_arguments": None}}
    (made,) = replayed_like(SENT, {"role": "assistant", "tool_calls": [call]}, OURS)["tool_calls"]
    assert made["function"] == {"name": "look", "arguments": expected, "parsed_arguments": None}
    assert made["id"] == "now"
    assert made["index"] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"content": "Yes. Calling look."},
        {"tool_calls": []} | answer("", '{"a": "another"}', "then"),
        {"tool_calls": [*SENT["tool_calls"], *SENT["tool_calls"]]},
    ],
)
def test_an_answer_that_the_client_wrote_anew_is_untraceable(change: Json) -> None:
    with pytest.raises(Untraceable):
        replayed_like(SENT, SENT | change, OURS)
