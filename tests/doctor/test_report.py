"""Each habit of a harness is found, and nothing else is."""

import asyncio
import os
import signal
from io import StringIO

from rich.console import Console

from gateway.doctor.table import show
from tests.doctor.conftest import until

TURNS = 12
"""Of a conversation of three questions, each of which takes three calls and an answer."""


def shown(report):
    """The report as a terminal that is wide enough shows it."""
    text = StringIO()
    show(Console(file=text, width=240, color_system=None), report)
    return text.getvalue()


async def test_a_harness_that_sends_back_what_it_got_keeps_its_prefix(report_on, examine):
    """One row; every token of a prompt but the new messages' is taken over."""
    report = await report_on("keeps")
    told = report.as_object()

    assert (told["verdict"], told["exit_code"], told["rows"], told["turns"]) == ("keeps", 0, 1, TURNS)
    assert told["main_line"] == list(range(1, TURNS + 1))
    assert told["calls"] == {"answered": TURNS, "replayed": 0, "refused": 0, "failed": 0, "left": 0}
    assert told["breaks"] == told["accepted"] == told["side_lines"] == told["errors"] == told["dropped_answers"] == []
    assert told["rendered_tokens"] == told["reprefilled_tokens"] == 0
    turns = [step.turn for step in report.seen.steps]
    known = [turn.prompt_length + len(turn.completion.ids) for turn in turns[:-1]]
    assert told["reused_tokens"] == sum(known)
    assert told["reused_share"] == round(sum(known) / sum(turn.prompt_length for turn in turns), 4)


async def test_a_tool_that_may_change_something_is_let_alone_and_named(report_on):
    """And the table says how to have it called."""
    report = await report_on("keeps")

    assert report.as_object()["tools"] == {"called": ["weather"], "left_alone": ["delete_city"]}
    assert "--tool NAME does): delete_city" in shown(report)


async def test_a_tool_that_is_named_is_called(examine):
    """And no other."""
    told = await examine("keeps", tools=frozenset({"delete_city"}))

    assert told["tools"]["called"] == ["delete_city"]


async def test_a_rewritten_message_is_named_with_its_index_and_what_it_was(report_on):
    """The turn, the message, both texts; and what the trainer and the engine do twice."""
    report = await report_on("rewrites_user")
    told = report.as_object()
    (broken,) = told["breaks"]
    (changed,) = broken["messages"]

    assert (told["verdict"], told["exit_code"], told["rows"]) == ("breaks", 1, 2)
    assert (broken["turn"], broken["after_turn"], broken["reason"]) == (6, 5, "history_edited")
    assert changed == {
        "message": 10,
        "role": "user",
        "change": "rewritten",
        "what": ["content"],
        "before": "And in Chur?",
        "after": "And in Chur? (be brief)",
    }
    before, after = report.seen.steps[4].turn, report.seen.steps[5].turn
    known, prompt = before.sequence.ids(), after.prompt_ids()
    alike = next(at for at, pair in enumerate(zip(known, prompt, strict=False)) if pair[0] != pair[1])
    assert told["rendered_tokens"] == broken["rendered_tokens"] == min(len(known), len(prompt))
    assert told["reprefilled_tokens"] == broken["rendered_tokens"] - alike
    assert "breaks its prefix once" in shown(report)
    assert "“And in Chur?” → “And in Chur? (be brief)”" in shown(report)


async def test_a_change_of_tools_is_told_from_one_of_the_history(examine):
    """No message was changed."""
    told = await examine("changes_tools")
    (broken,) = told["breaks"]

    assert (told["verdict"], broken["turn"], broken["reason"]) == ("breaks", 3, "tools_changed")
    assert broken["messages"] == []
    assert broken["above"] == [{"what": "tools", "before": "delete_city", "after": None}]


async def test_dropped_reasoning_is_an_accepted_difference(examine):
    """Of each answer once, and the prefix is kept."""
    told = await examine("drops_reasoning")
    (accepted,) = told["accepted"]

    assert (told["verdict"], told["exit_code"], told["rows"]) == ("keeps", 0, 1)
    assert (accepted["kind"], accepted["answers"]) == ("reasoning_dropped", TURNS - 1)
    assert (accepted["turn"], accepted["message"]) == (2, 2)
    assert accepted["before"].startswith("<think>")
    assert not accepted["after"].startswith("<think>")


async def test_a_dropped_answer_is_named_and_breaks_nothing(examine):
    """What comes after goes on from the turn before it, so it is a row of its own."""
    told = await examine("drops_an_answer")

    assert (told["verdict"], told["dropped_answers"], told["rows"]) == ("keeps", [4], 2)
    assert told["side_lines"] == []


async def test_side_calls_stand_beside_the_main_line_and_break_nothing(examine):
    """One begins anew, one shows the history under another system prompt; both are told with what they cost."""
    told = await examine("makes_a_side_call")
    title, summary = told["side_lines"]

    assert (told["verdict"], told["breaks"], told["rows"]) == ("keeps", [], 3)
    assert len(told["main_line"]) == TURNS
    assert (title["turn"], title["after_turn"], title["reason"], title["tools"]) == (1, None, "first_turn", 0)
    assert (title["asks"], title["rendered_tokens"]) == ("How is the weather in Bern?", 0)
    assert (summary["turn"], summary["after_turn"], summary["reason"]) == (6, 5, "system_changed")
    assert summary["above"] == [{"what": "system", "before": "You are a weather service.", "after": "You sum up."}]
    assert 0 < summary["rendered_tokens"] <= summary["prompt_tokens"]
    assert title["main_line_went_on"]
    assert summary["main_line_went_on"]


async def test_a_harness_that_packs_its_history_into_one_message_never_goes_on(report_on):
    """However many calls it makes; they come to an end, and the table shows the first of them."""
    report = await report_on("is_stateless")
    told = report.as_object()

    assert (told["verdict"], told["exit_code"], told["reused_tokens"]) == ("restarts", 1, 0)
    assert told["rows"] == told["turns"] == len(told["side_lines"]) + 1
    assert f"and {told['turns'] - 13} more: --json has them" in shown(report)


async def test_one_turn_is_nothing_to_judge(examine):
    """It is no proof of anything."""
    told = await examine("asks_once")

    assert (told["verdict"], told["exit_code"], told["turns"]) == ("one_turn", 3, 1)
    assert told["tools"] == {"called": [], "left_alone": []}


async def test_a_retry_is_no_turn_of_its_own(examine):
    """It is told that there was one, and that it got the answer that there was."""
    told = await examine("retries")

    assert (told["turns"], told["retries"], told["rows"]) == (1, 1, 1)
    assert told["calls"] == {"answered": 1, "replayed": 1, "refused": 0, "failed": 0, "left": 0}


async def test_who_made_no_call_is_told_what_to_look_at(examine):
    """Its environment."""
    told = await examine("makes_no_call")

    assert (told["verdict"], told["exit_code"], told["reused_share"]) == ("no_call", 3, None)
    assert "OPENAI_BASE_URL" in told["summary"]


async def test_who_failed_before_its_first_call_is_sent_to_what_it_printed(examine):
    """And not to its environment."""
    told = await examine("fails_at_once")

    assert (told["verdict"], told["exit_code"]) == ("no_call", 4)
    assert told["summary"] == "failed before it made a call: what it printed says why"


async def test_who_asks_for_what_is_not_there_is_told_so(examine):
    """With the path, and the one that is there."""
    told = await examine("speaks_another_dialect")

    assert (told["verdict"], told["exit_code"]) == ("unanswered", 3)
    assert [(one["status"], one["path"], one["calls"]) for one in told["errors"]] == [(404, "/v1/nothing", 1)]
    assert told["summary"].endswith("turns are taken at /v1/chat/completions")
    assert told["calls"]["refused"] == 1


async def test_an_agent_that_fails_is_told_from_one_that_breaks_its_prefix(examine):
    """Its own exit code is shown."""
    told = await examine("crashes")

    assert (told["exit_code"], told["agent"]["ended"], told["agent"]["exit_code"]) == (4, "exited", 3)
    assert told["turns"] == 1


async def test_what_the_renderer_cannot_extend_is_not_the_harness_s_doing(examine):
    """The second answer holds half a call, which no template writes again as it was: the harness keeps it all the same."""
    told = await examine("keeps", stumbles=True)
    (broken,) = told["breaks"]

    assert (told["verdict"], told["exit_code"]) == ("keeps", 0)
    assert (broken["turn"], broken["reason"], broken["by"], broken["messages"]) == (
        3,
        "bridge_declined",
        "renderer",
        [],
    )
    assert "the renderer cannot go on from its answers once" in told["summary"]


async def test_an_agent_that_does_not_end_is_ended(examine, monkeypatch):
    """After its time."""
    monkeypatch.setenv("LINGERS", os.devnull)
    told = await examine("lingers", timeout_s=0.5)

    assert (told["exit_code"], told["agent"]["ended"]) == (4, "timed_out")


async def test_an_interrupt_ends_the_agent_and_reports_what_was_seen(report_on, monkeypatch, tmp_path):
    """Sent to us, as a terminal does; its turns count."""
    lingers = tmp_path / "lingers"
    monkeypatch.setenv("LINGERS", str(lingers))
    examination = asyncio.ensure_future(report_on("lingers"))
    await until(lingers.exists)
    os.kill(os.getpid(), signal.SIGINT)
    report = await examination
    told = report.as_object()

    assert (told["exit_code"], told["agent"]["ended"]) == (4, "interrupted")
    assert (told["verdict"], told["turns"]) == ("keeps", TURNS)
    assert "the agent was ended: it was interrupted" in shown(report)
