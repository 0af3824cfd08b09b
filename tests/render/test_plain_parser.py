"""An answer that a grammar bound is read as text, markers and all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.types import Sampling, TurnRequest
from gateway.render.plain_parser import PlainParser
from gateway.render.protocol import Tokenizer
from gateway.render.reading import Reading
from gateway.render.registry import Renderers, renderers_for
from tests.render.doubles import PlainTokenizer


@given(st.lists(st.integers(0, 300), max_size=20), st.lists(st.integers(1, 5), max_size=20))
def test_it_tells_the_text_up_to_the_first_stop_id(ids, sizes):
    """However the ids are cut; white space too."""
    parser, told, rest = PlainParser(PlainTokenizer(), {0}), [], list(ids)
    for size in sizes:
        told += parser.feed(rest[:size])
        del rest[:size]
    told += parser.feed(rest)

    end, whole = ids.index(0) if 0 in ids else len(ids), parser.finish()
    assert whole.flags == (("past_stop",) if end + 1 < len(ids) else ())
    assert whole.content == "".join(delta.content or "" for delta in told) == "".join(map(chr, ids[:end]))


@pytest.mark.parametrize("constraint", [{"json": {}}, {"json_object": True}, {"regex": ".*"}, {"choice": ["a"]}])
def test_a_marker_in_a_bound_text_is_text(renderers: Renderers, constraint: dict[str, object]) -> None:
    """Grammars let engines write control tokens within strings: read as calls they would break the text."""
    answer = read(renderers, '{"a": "<tool_call>x</think>"}<|im_end|>', constraint)
    assert (answer.message.content, answer.message.tool_calls) == ('{"a": "<tool_call>x</think>"}', ())
    assert answer.flags == ()


def test_a_grammar_of_the_clients_own_may_have_calls_in_it(renderers: Renderers) -> None:
    """Then they are read as always."""
    answer = read(renderers, '<tool_call>{"name": "f"}</tool_call><|im_end|>', {"structural_tag": "{}"})
    assert [call.name for call in answer.message.tool_calls] == ["f"]


@pytest.fixture(scope="module")
def renderers(qwen: Tokenizer) -> Renderers:
    """Qwen3's."""
    return renderers_for("auto", qwen, None, retention="all", bridgeless_ok=False)[0]


def read(renderers: Renderers, text: str, constraint: dict[str, object]):
    """The answer to a request that is bound so."""
    request = TurnRequest((), sampling=Sampling(), constraint=constraint)
    reading = Reading(renderers.get({}), [], request, str)
    reading.feed(renderers.tokenizer.encode(text, add_special_tokens=False))
    return reading.finish().answer
