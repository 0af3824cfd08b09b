"""The alerts: about metrics that there are; each says what to do, and is tested both ways by promtool's own tests."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.boards.facts import faults_of

Json = dict[str, Any]
DEPLOY = Path(__file__).parent.parent.parent / "deploy" / "prometheus"
TROUBLESHOOTING = DEPLOY.parent.parent / "docs" / "troubleshooting.md"
RULES: list[Json] = [
    rule for group in yaml.safe_load((DEPLOY / "rules.yml").read_text())["groups"] for rule in group["rules"]
]
NAMES = [rule["alert"] for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_an_alert_names_metrics_labels_and_values_that_there_are(rule: Json) -> None:
    """Those of the gateway's own table."""
    assert faults_of(rule["expr"]) == []


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_an_alert_says_how_bad_it_is_what_is_so_and_what_to_do(rule: Json) -> None:
    """In a line that names the gateway, and a few that an operator can act on."""
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}
    assert "{{ $labels." in rule["annotations"]["summary"] or rule["alert"] == "NoGateway"
    assert len(rule["annotations"]["description"]) > 60


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_an_alert_leads_to_a_section_of_the_troubleshooting_page(rule: Json) -> None:
    """One that is there."""
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^#+ (.+)$", TROUBLESHOOTING.read_text(), re.MULTILINE)

    assert page == "docs/troubleshooting.md"
    assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_is_tested_both_ways(name: str) -> None:
    """It fires in one of promtool's tests, and is silent in one that is about it."""
    tests = yaml.safe_load((DEPLOY / "tests.yml").read_text())["tests"]
    expression = f'ALERTS{{alertname="{name}",alertstate="firing"}}'
    expected = [one["exp_samples"] for test in tests for one in test["promql_expr_test"] if one["expr"] == expression]

    assert any(samples for samples in expected)
    assert any(not samples for samples in expected)
