"""What the engine's own template and tokenizer write serves prompts, bridges and, where need be, answers."""

import pytest

from gateway.core.types import Message, TurnRequest
from gateway.errors import BadRequest, ContextLengthExceeded, EngineUnavailable, MultimodalUnsupported, RendererError
from gateway.render import render_server
from gateway.render.discovery import AnswerFormat, answer_format
from gateway.render.protocol import Renderer
from gateway.render.reading import Reading
from gateway.render.recollection import Recollection
from gateway.render.remote import RemoteRenderer
from gateway.render.render_server import RETRIES
from gateway.render.translator import Translator
from gateway.sim import RENDER_FAULTS, RENDERS
from tests.render.doubles import PlainTokenizer
from tests.render.render_double import render_double
from tests.simulated import simulated

USER = {"role": "user", "content": "How is it in Zürich?"}
NEXT = {"role": "user", "content": "And now?"}
LOOK = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}},
}
END = 151645
UNKNOWN = AnswerFormat("text only", "nobody knows", PlainTokenizer(), takes_tools=False)


@pytest.fixture(scope="module")
def sim(tokenizer_folder):
    with simulated(tokenizer=tokenizer_folder, max_model_len=4096) as started:
        yield started


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(render_server, "RETRIES", RETRIES.new(backoff_factor=0, backoff_jitter=0))


@pytest.fixture
def remote(sim, qwen):
    """A renderer, under template arguments and options if they are given."""

    def made(template_kwargs=None, **options):
        return RemoteRenderer(sim[0], qwen, template_kwargs or {}, **{"answers": UNKNOWN} | options)

    return made


@pytest.fixture(scope="module")
def parsed(qwen):
    """Options with which answers are read here, as the tokenizer's own template shows."""
    return {"answers": answer_format(qwen, None, {})}


def answer(qwen, text):
    return [*qwen.encode(text, add_special_tokens=False), END]


def calling(name, **arguments):
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "1", "function": {"name": name, "arguments": arguments}}],
    }


def test_a_prompt_is_what_the_engines_template_writes(remote, qwen):
    """With tools, calls and results; opened or not; under the template's own arguments."""
    history = [USER, calling("look", at="Zürich"), {"role": "tool", "content": "12°", "tool_call_id": "1"}]
    assert isinstance(remote(), Renderer)
    for kwargs in ({}, {"enable_thinking": False}):
        for tools in (None, [LOOK]):
            for opened in (False, True):
                ids = remote(kwargs).render_ids(history, tools=tools, add_generation_prompt=opened)
                text = qwen.apply_chat_template(
                    history, tools=tools, add_generation_prompt=opened, tokenize=False, **kwargs
                )
                assert ids == qwen.encode(text, add_special_tokens=False)


def test_the_stops_are_what_the_template_writes_behind_an_answer(remote):
    assert remote().get_stop_token_ids() == [END]


@pytest.mark.parametrize("knows_answers", [True, False])
def test_a_turn_is_bridged_as_the_whole_history_would_be_rendered(remote, qwen, parsed, knows_answers):
    """By who knows the four methods alone, whoever reads the answers: here, or the engine."""
    renderer = remote(recollection=Recollection(), **(parsed if knows_answers else {}))
    prompt = renderer.render_ids([USER], tools=[LOOK], add_generation_prompt=True)
    call = '<tool_call>\n{"name": "look", "arguments": {"at": "Zürich"}}\n</tool_call>'
    said = answer(qwen, f"<think>\nHm.\n</think>\n\n{call}")
    result = {"role": "tool", "content": "12°", "tool_call_id": "1"}

    bridged = renderer.bridge_to_next_turn(prompt, said, [result], tools=[LOOK])

    history = [USER, calling("look", at="Zürich") | {"reasoning_content": "Hm."}, result]
    assert bridged == renderer.render_ids(history, tools=[LOOK], add_generation_prompt=True)
    assert bridged[: len(prompt) + len(said)] == prompt + said


def test_a_certified_shape_asks_for_small_renders_only(remote, sim, qwen):
    """The history itself was rendered for the first turn of its shape, and is not again."""
    renderer, long = remote({"enable_thinking": False}, retention="all"), {"role": "user", "content": "word " * 500}
    sizes = []
    for question in ("one", "two"):
        history = [{**long, "content": long["content"] + question}, {"role": "assistant", "content": "ok"}]
        prompt = renderer.render_ids(history[:1], add_generation_prompt=True)
        sim[1][RENDERS].clear()
        assert renderer.bridge_to_next_turn(prompt, answer(qwen, "ok"), [NEXT], history=history) is not None
        sizes.append([len(body["messages"][0]["content"]) for body in sim[1][RENDERS]])
    assert max(sizes[0]) > 2000
    assert max(sizes[1]) < 20
    assert len(sizes[1]) == 2


def test_what_the_template_would_strip_is_bridged_only_where_it_is_to_be_kept(remote, qwen):
    """Qwen3's strips thoughts at the next user's message: `all` keeps them, the template's own policy does not."""
    thought = answer(qwen, "<think>\nHm.\n</think>\n\nok")
    history = [USER, {"role": "assistant", "content": "ok", "reasoning_content": "Hm."}]
    for retention in (None, "all"):
        renderer = remote(retention=retention)
        prompt = renderer.render_ids([USER], add_generation_prompt=True)
        bridged = renderer.bridge_to_next_turn(prompt, thought, [NEXT], history=history)
        assert (bridged is not None) == (retention == "all")


def test_a_prompt_is_truncated_where_asked_and_never_bridged_from(remote, qwen):
    """A prompt of as many ids as are allowed may have been longer; a bridge that would be longer is rendered."""
    whole = remote().render_ids([USER], add_generation_prompt=True)
    cut = remote({"truncate_prompt_tokens": 5, "truncation_side": "left"})
    assert cut.render_ids([USER], add_generation_prompt=True) == whole[-5:]
    assert cut.bridge_to_next_turn(whole[-5:], answer(qwen, "ok"), [NEXT]) is None

    few = remote({"truncate_prompt_tokens": 5})
    assert len(few.render_ids([USER], tools=[LOOK], add_generation_prompt=True)) == 5
    assert (few.truncates, remote().truncates) == (True, False)

    history = [USER, {"role": "assistant", "content": "ok"}]
    for most, bridges in ((len(whole) + 4, False), (1000, True), (-1, False), ("many", False)):
        renderer = remote({"truncate_prompt_tokens": most, "enable_thinking": False}, retention="all")
        prompt = remote({"enable_thinking": False}).render_ids([USER], add_generation_prompt=True)
        bridged = renderer.bridge_to_next_turn(prompt, answer(qwen, "ok"), [NEXT], history=history)
        assert (bridged is not None) == bridges


def test_answers_are_parsed_by_the_engine_where_nobody_else_knows_how(remote, qwen):
    """Up to the first stop id; an id that the engine made up is not the model's own."""
    renderer = remote()
    assert (renderer.answers, renderer.markers) == (None, None)
    text = '<think>\nHm.\n</think>\n\nSo:\n<tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call>'
    found = renderer.parse_response([*answer(qwen, text), 9707], tools=[LOOK], prompt_ids=[1, 2])
    [call] = found.tool_calls
    assert (found.content.strip(), found.reasoning_content.strip()) == ("So:", "Hm.")
    assert (call.name, call.arguments, call.id) == ("look", '{"at": 1}', None)
    empty = renderer.parse_response([END])
    assert (empty.content, empty.reasoning_content, empty.tool_calls) == ("", None, ())


@pytest.mark.parametrize("fault", [(503, b"", {}), (400, {"error": {"message": "ill"}}, {}), {"choices": []}])
def test_an_answer_that_the_engine_cannot_parse_is_a_text(answering, qwen, fault):
    """All of it, said to be unparsed: it was sampled, and whose fault that is, the agent's it is not."""
    answering.double.says((400, b"", {}), {"token_ids": [1]})
    renderer = RemoteRenderer(answering.double.url, qwen, {}, answers=UNKNOWN)
    answering.double.says(fault)
    request = TurnRequest((Message("user", "?"),))
    reading = Reading(Translator(renderer, qwen), [1], request, lambda: "call_0")
    reading.feed(answer(qwen, "<think>Hm.</think>ok"))
    told = reading.finish().answer
    assert (told.message.content, told.flags) == ("<think>Hm.</think>ok", ("unparsed",))


def test_answers_are_read_here_where_that_is_known(remote, sim, qwen, parsed):
    """Then streams are, too, and the engine need not be able to parse calls."""
    renderer = remote(**parsed)
    assert renderer.markers is not None
    assert renderer.parse_response(answer(qwen, "<think>\nHm.\n</think>\n\nok")).content == "ok"
    renderer.render_ids([USER], tools=[LOOK])
    assert sim[1][RENDERS][-1]["tool_choice"] == "none"
    asked = remote()
    asked.render_ids([USER], tools=[LOOK])
    assert sim[1][RENDERS][-1]["tool_choice"] == "auto"


def test_an_engine_that_parses_nothing_leaves_it_to_us(tokenizer_folder, qwen):
    """Before 0.24 there was no such route."""
    with simulated(tokenizer=tokenizer_folder, version="0.20.2") as (url, _):
        answers = RemoteRenderer(url, qwen, {}, answers=UNKNOWN).answers
    assert answers is UNKNOWN


def test_what_the_engine_refuses_is_the_callers_fault_in_its_words(remote):
    renderer = remote()
    with pytest.raises(BadRequest, match="empty conversation"):
        renderer.render_ids([])
    with pytest.raises(ContextLengthExceeded):
        renderer.render_ids([{"role": "user", "content": "word " * 5000}])


def test_through_the_gateways_own_types_a_refusal_is_still_one(remote, qwen):
    with pytest.raises(BadRequest, match="empty conversation"):
        Translator(remote(), qwen).render([], ())


def test_a_busy_engine_is_asked_again_and_a_lost_one_is_unavailable(remote, sim):
    """A bridge that cannot be proven for that reason fails the turn, which can be tried again."""
    renderer, faults = remote(), sim[1][RENDER_FAULTS]
    faults.inject("error_503")
    faults.inject("cut")
    assert renderer.render_ids([USER])
    faults.inject("error_503", times=5)
    with pytest.raises(EngineUnavailable):
        renderer.render_ids([USER])


def test_a_closed_engine_says_how_to_open_it(remote, sim):
    renderer = remote()
    sim[1][RENDER_FAULTS].inject("scale_out_disabled")
    with pytest.raises(RendererError, match="--enable-scale-out"):
        renderer.render_ids([USER])


def test_an_answer_without_ids_is_shown_cut_short(remote, sim):
    renderer = remote()
    sim[1][RENDER_FAULTS].inject("no_token_ids")
    with pytest.raises(RendererError, match=r"answered without token_ids: .*sampling_params") as caught:
        renderer.render_ids([USER])
    assert len(caught.value.message) < 450


class Answering:
    """A renderer of what a double answers."""

    def __init__(self, double, qwen, parsed):
        self.double = double
        double.says({"token_ids": [1]})
        self.renderer = RemoteRenderer(double.url, qwen, {}, **parsed)


@pytest.fixture
def answering(qwen, parsed):
    with render_double() as double:
        yield Answering(double, qwen, parsed)


def test_what_a_text_prompt_cannot_say_is_refused(answering):
    """An engine that found an image renders a place for it, and sends it beside the ids."""
    answering.double.says({"token_ids": [1], "features": {"mm_hashes": {}}})
    with pytest.raises(MultimodalUnsupported):
        answering.renderer.render_ids([USER])


@pytest.mark.parametrize("ids", [None, "1", [1, "2"], [True], [-1], [2**32], []])
def test_ids_are_whole_numbers(answering, ids):
    answering.double.says({"token_ids": ids})
    with pytest.raises(RendererError, match="without token_ids"):
        answering.renderer.render_ids([USER])


def test_a_prompt_of_which_nothing_is_left_is_the_callers_fault(answering, qwen, parsed):
    renderer = RemoteRenderer(answering.double.url, qwen, {"truncate_prompt_tokens": 0}, **parsed)
    answering.double.says({"token_ids": []})
    with pytest.raises(BadRequest, match="truncate_prompt_tokens"):
        renderer.render_ids([{"role": "user", "content": "?"}])


def test_tools_that_a_prompt_does_not_show_are_refused(answering):
    """That is found out once: a model must not be graded on tools that it never saw."""
    answering.double.says({"token_ids": [1]})
    with pytest.raises(BadRequest, match="shows its model no tools"):
        answering.renderer.render_ids([USER], tools=[LOOK])
    answering.double.says({"token_ids": [1]}, {"token_ids": [2]}, {"token_ids": [3]})
    assert answering.renderer.render_ids([USER], tools=[LOOK]) == [3]
    assert answering.renderer.render_ids([USER], tools=[LOOK]) == [3]


def test_arguments_go_as_text_and_reasoning_under_both_names(answering):
    """As OpenAI's API has them; the engine gives its template what that wants."""
    answering.double.says({"token_ids": [1]})
    message = calling("look", at="ü") | {"reasoning_content": "Hm."}
    answering.renderer.render_ids([message, calling("look")])
    first, second = answering.double.asked[-1][1]["messages"]
    assert (first["reasoning"], first["reasoning_content"]) == ("Hm.", "Hm.")
    arguments = [one["tool_calls"][0]["function"]["arguments"] for one in (first, second)]
    assert arguments == ['{"at": "ü"}', "{}"]


def test_a_tokenizer_without_an_end_is_refused(answering, qwen):
    class Endless:
        all_special_ids = ()
        eos_token_id = None

        def get_added_vocab(self):
            return {}

    answering.double.says((404, b"", {}), {"token_ids": [1]})
    with pytest.raises(RendererError, match="no eos token"):
        RemoteRenderer(answering.double.url, Endless(), {}, answers=UNKNOWN)
