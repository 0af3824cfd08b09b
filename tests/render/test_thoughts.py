"""Thoughts that say nothing, in each way in which models mark them."""

from copy import copy

import pytest

from gateway.render.demo import MODEL_NAME
from gateway.render.discovery import answer_format
from gateway.render.protocol import MessageDict
from gateway.render.registry import load_tokenizer
from gateway.render.template import TemplateRenderer
from gateway.render.thoughts import EMPTY, OPENED, OPENERS, THOUGHTS
from tests.render.hostile import chatml

HI: MessageDict = {"role": "user", "content": "a"}
OK: MessageDict = {"role": "assistant", "content": "b"}
MORE: MessageDict = {"role": "user", "content": "c"}


@pytest.fixture(scope="module")
def demo():
    return load_tokenizer(MODEL_NAME, MODEL_NAME)


@pytest.fixture(params=THOUGHTS, ids=lambda pair: pair[0])
def bridged(request, demo):
    """What comes of an answer, and of one in whose mouth the template puts a thought, under some retention."""
    opener, closer = request.param
    empty = f"{opener}\n\n{closer}\n\n"

    def made(retention, *, thinking):
        tokenizer = copy(demo)
        opening = "" if thinking else empty
        thought = (
            f"{{% if message.reasoning_content %}}{opener}{{{{ message.reasoning_content }}}}{closer}{{% endif %}}"
        )
        tokenizer.chat_template = chatml(
            thought=thought, opening=f"{{% if add_generation_prompt %}}<|im_start|>assistant\n{opening}{{% endif %}}"
        )
        renderer = TemplateRenderer(tokenizer, {}, retention=retention, answers=answer_format(tokenizer, None, {}))
        prompt = renderer.render_ids([HI], add_generation_prompt=True)
        sampled = renderer.encode(f"{empty if thinking else ''}b<|im_end|>")
        bridge = renderer.bridge_to_next_turn(prompt, sampled, [MORE], history=[HI, OK])
        return None if bridge is None else bridge[: len(prompt) + len(sampled)] == prompt + sampled

    return made


@pytest.mark.parametrize("thinking", [True, False])
def test_a_thought_that_says_nothing_is_kept_only_where_all_thoughts_are(bridged, thinking):
    """The template would not write it again, be it sampled or put into the model's mouth."""
    assert bridged(None, thinking=thinking) is None
    assert bridged("all", thinking=thinking) is True


@pytest.mark.parametrize("opener", OPENERS)
def test_an_open_thought_is_seen_at_the_end_of_a_text_alone(opener):
    assert OPENED.search(f"assistant\n{opener}\n")
    assert not OPENED.search(f"what is {opener}?")


def test_only_what_is_between_its_own_markers_is_a_thought():
    (one, end), (other, _), *_ = THOUGHTS
    assert EMPTY.sub("", f"{one} {end}\n\nok") == "ok"
    assert not EMPTY.search(f"{one}hm{end}")
    assert not EMPTY.search(f"{other}{end}")
