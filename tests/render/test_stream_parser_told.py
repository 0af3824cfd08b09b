"""When the parser tells what it has read: as soon as it is certain, and no sooner."""

import pytest

from gateway.render.parsed import Delta
from tests.render.answers import ALL, CALL, F, ids, parser


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("qwen3", "ok", "ok"),
        ("qwen3", "ok \n", "ok"),
        ("qwen3", "ok \n<", "ok \n<"),
        ("demo", "ok \n\n", "ok \n"),
        ("demo", " \n", ""),
        ("demo", " \n<thin", " \n<thin"),
        ("deepseek-v3", " <", ""),
        ("deepseek-v3", "<thin", ""),
        ("deepseek-v3", "<thing", "<thing"),
        ("deepseek-v3", "<<thin", "<<thin"),
        ("deepseek-v3", "ok <think", "ok <think"),
        ("deepseek-v4", "ok <", "ok"),
        ("deepseek-v4", "ok <｜DSML｜", "ok"),
        ("deepseek-v4", "ok <｜DSML｜para", "ok <｜DSML｜para"),
        ("deepseek-v4", "ok </｜DSML｜inv", "ok </｜DSML｜inv"),
        ("deepseek-v4", "<｜DSML｜tool_calls>a</｜DSML｜tool_cal", "a"),
    ],
)
def test_text_that_may_become_a_marker_is_held_and_no_other(name, text, told):
    """Only for markers that mean something at that place; white space that may be the template's waits as well."""
    assert "".join(delta.content or "" for delta in parser(name).feed(ids(name, text))) == told


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("qwen3", "<think>a", "a"),
        ("qwen3", "<think>a <tool_call>", "a"),
        ("qwen3", "<think>a <tool_call>b</think>", "a <tool_call>b"),
        ("deepseek-v3", "<think>a </thin", "a"),
        ("deepseek-v3", "<think>a </thing", "a </thing"),
        ("deepseek-v4", "<think>a <｜DSML｜tool_calls>b", "a"),
    ],
)
def test_reasoning_is_told_as_far_as_it_is_certain(name, text, told):
    """What may turn out to be a call is held from its opening on."""
    assert "".join(delta.reasoning_content or "" for delta in parser(name).feed(ids(name, text))) == told


@pytest.mark.parametrize("name", ALL)
def test_a_call_is_told_whole_when_it_closes(name):
    """In order with the text around it, a delta for each kind."""
    reader = parser(name)
    tokens = ids(name, f"a{CALL[name]}")
    closing = next(n for n in range(len(tokens) + 1) if any(d.tool_calls for d in parser(name).feed(tokens[:n])))

    assert reader.feed(tokens[: closing - 1]) == [Delta(content="a")]
    assert reader.feed(tokens[closing - 1 : closing]) == [Delta(tool_calls=(F,))]
    assert reader.feed(ids(name, f"b{CALL[name]}{CALL[name]}c")) == [
        Delta(content="\nb"),
        Delta(tool_calls=(F, F)),
        Delta(content="\nc"),
    ]
