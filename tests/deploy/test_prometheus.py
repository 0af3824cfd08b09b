"""Debian's Prometheus before a gateway under load: it reads it, every panel has data, and alerts fire for a cause."""

import re
import shutil

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.prometheus import FOLDER, PROMETHEUS, PROMTOOL, promtool
from tests.deploy.prometheus_story import Seen, told

FIRED = {
    "PrefixBreaksRising": "gateway",
    "RawLogprobsAtOtherTemperature": "gateway",
    "RankDown": "gateway",
    "EventLoopLagging": "gateway",
    "GatewayDown": "second",
}
"""The alerts that there is a cause for, and at which gateway."""
HAPPENED = [
    ("gateway_calls_total", {"result": "replayed"}),
    ("gateway_calls_total", {"result": "refused"}),
    ("gateway_calls_total", {"result": "left"}),
    ("gateway_aborts_total", {"reason": "client_gone"}),
    ("gateway_retries_total", {"outcome": "joined"}),
    ("gateway_retries_total", {"outcome": "replayed"}),
    ("gateway_message_differences_total", {"kind": "reasoning_dropped"}),
    ("gateway_prompts_total", {"how": "bridged"}),
    ("gateway_prompts_total", {"reason": "history_edited"}),
    ("gateway_prompt_prefix_tokens_total", {"source": "reused"}),
    ("gateway_turn_distributions_total", {"logprobs_exact": "false"}),
    ("gateway_cuts_total", {"reason": "lost"}),
    ("gateway_resumes_total", {"outcome": "resumed"}),
    ("gateway_resumed_tokens_total", {}),
    ("gateway_session_moves_total", {}),
    ("gateway_pause_seconds_total", {}),
    ("gateway_policy_ordinal", {}),
    ("gateway_bridge_audits_total", {"result": "passed"}),
    ("gateway_side_arrays_missing_total", {"array": "routed_experts"}),
]
"""What the story is about, as the gateway that it happened to counts it."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The story, told once."""
    for program in (PROMETHEUS, PROMTOOL):
        assert shutil.which(program), f"{program} is missing: run tests/deploy/environment.sh"
    return told(tmp_path_factory.mktemp("prometheus"))


def test_a_gateway_and_a_fleet_found_by_file_are_scraped_with_the_admin_key(seen: Seen) -> None:
    """By the deployed configuration, but for addresses, the key's file and the pace."""
    jobs = {(target["labels"]["job"], target["labels"].get("fleet"), target["health"]) for target in seen.targets}

    assert jobs == {("rollout-gateway", None, "up"), ("rollout-gateway-fleet", "main", "up")}


def test_nothing_fires_and_nobody_fails_while_all_is_well(seen: Seen) -> None:
    """Faithful agents, such as drop reasoning, and a pause with a policy announced in it.

    Whether a loop lags hangs on what else this machine does, where a window is five seconds: tests.yml says when.
    """
    assert [alert for alert in seen.well if alert["labels"]["alertname"] != "EventLoopLagging"] == []
    assert seen.failures_well == []


def test_what_panels_are_about_has_happened(seen: Seen) -> None:
    """Retries, hang-ups, dropped reasoning, rewrites, a pause, a policy, and a killed engine whose answers were carried on."""
    samples = [one for family in text_string_to_metric_families(seen.exposition) for one in family.samples]
    sums = {
        (name, *labels.values()): sum(
            one.value for one in samples if one.name == name and labels.items() <= one.labels.items()
        )
        for name, labels in HAPPENED
    }

    assert {what for what, count in sums.items() if not count > 0} == set()


@pytest.mark.parametrize("alert", FIRED)
def test_alerts_fire_for_their_cause_and_say_what_to_do(seen: Seen, alert: str) -> None:
    """Agents that rewrite, a temperature, an engine and a gateway killed, a process that is stopped again and again."""
    fired = seen.fired[alert]

    assert fired["labels"]["instance"] == getattr(seen, FIRED[alert])
    assert fired["labels"]["severity"] in ("warning", "critical")
    assert fired["annotations"].keys() == {"summary", "description", "runbook"}
    assert not re.search(r"<no value>|error|\{\{", fired["annotations"]["summary"])


def test_every_query_of_every_panel_has_data(seen: Seen) -> None:
    """Now and over the range, and not NaN alone."""
    assert seen.panels_status == 0, seen.panels
    assert re.search(r"^\d{2,} queries, 0 without data$", seen.panels, re.MULTILINE)


def test_promtool_finds_nothing_to_say_of_the_exposition(seen: Seen) -> None:
    """Of a gateway that everything has happened to."""
    assert promtool("check", "metrics", given=seen.exposition.encode()) == (0, "")


def test_promtool_takes_the_configuration() -> None:
    """As it is deployed, where the key's file may be another machine's; and its rules."""
    assert promtool("check", "config", "--syntax-only", str(FOLDER / "prometheus.yml"))[0] == 0
    assert promtool("check", "config", "--lint-fatal", "--syntax-only", str(FOLDER / "prometheus.yml"))[0] == 0
    assert promtool("check", "rules", "--lint-fatal", str(FOLDER / "rules.yml"))[0] == 0


def test_promtool_finds_that_alerts_fire_when_they_should_alone() -> None:
    """By tests.yml, beside the rules."""
    status, said = promtool("test", "rules", str(FOLDER / "tests.yml"))

    assert status == 0, said
    assert "SUCCESS" in said
