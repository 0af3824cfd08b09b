"""The dashboards: written by their generator, about metrics that there are, and about all of them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.edge.metric_table import TABLE
from tests.boards.facts import families_in, faults_of
from tools.boards.__main__ import BOARDS
from tools.boards.board import FOLDER, text_of
from tools.panels import asks

Json = dict[str, Any]
ON_NO_PANEL: dict[str, str] = {}
"""Metrics that no panel shows, and why not."""


def panels(name: str) -> Iterator[Json]:
    """The panels of a dashboard's file, but for the titles of rows."""
    board = json.loads((FOLDER / f"{name}.json").read_text())
    return (panel for panel in board["panels"] if panel["type"] != "row")


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_is_what_its_generator_writes(name: str) -> None:
    """`python -m tools.boards` writes them anew."""
    assert (FOLDER / f"{name}.json").read_text() == text_of(BOARDS[name]())


def test_there_is_no_dashboard_that_nobody_writes() -> None:
    """Each file has its generator."""
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.json" for name in BOARDS}


def test_grafana_takes_all_of_them_into_one_folder() -> None:
    """By names that are each its own and no number of one Grafana; panels have numbers of their own."""
    boards = [json.loads((FOLDER / f"{name}.json").read_text()) for name in BOARDS]

    assert len({board["uid"] for board in boards}) == len({board["title"] for board in boards}) == len(BOARDS)
    assert all(len(board["uid"]) <= 40 and not board.get("id") and board["schemaVersion"] >= 36 for board in boards)
    for board in boards:
        numbers = [panel["id"] for panel in board["panels"]]
        assert len(set(numbers)) == len(numbers)
        assert [variable["name"] for variable in board["templating"]["list"]] == ["datasource", "job", "instance"]


def test_rates_are_taken_over_as_many_scrapes_as_grafana_thinks_fit() -> None:
    """Whatever the interval of scrapes and the width of the screen."""
    windows = {window for ask in asks() for window in re.findall(r"\[[^\]]*\]", ask.expression)}

    assert windows == {"[$__rate_interval]"}


@pytest.mark.parametrize("name", BOARDS)
def test_every_panel_says_what_it_shows_in_which_unit_and_of_the_chosen_gateways(name: str) -> None:
    """And takes the data source that is chosen above; no two stand on each other."""
    places = set()
    for panel in panels(name):
        assert len(panel["description"]) > 15
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            assert target["expr"].count('{job=~"$job",instance=~"$instance"') == target["expr"].count("{")
        places.add((panel["gridPos"]["x"], panel["gridPos"]["y"]))
    assert len(places) == len(list(panels(name)))


def test_every_query_names_metrics_labels_and_values_that_there_are() -> None:
    """Those of the gateway's own table."""
    faults = {ask.expression: faults_of(ask.expression) for ask in asks()}

    assert {expression: found for expression, found in faults.items() if found} == {}


def test_every_metric_is_on_a_panel_or_has_a_reason_not_to_be() -> None:
    """One that is added is put somewhere."""
    shown = set().union(*(families_in(ask.expression) for ask in asks()))

    assert set(TABLE) - shown == set(ON_NO_PANEL)


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("sum(rate(gateway_turn_total[5m]))", "there is no gateway_turn_total"),
        ('gateway_turns_total{state="complete"}', "gateway_turns_total has no label state"),
        ('gateway_turns_total{status=~"complete|abort"}', "gateway_turns_total has no status abort"),
        ("sum by (dialekt) (gateway_turns_total)", "no metric of it has a label dialekt"),
        ("rate(gateway_phase_seconds[5m])", "gateway_phase_seconds is a histogram: its series end in _bucket, _sum or _count"),
        ("vector(1)", "it names no metric"),
    ],
)  # fmt: skip
def test_a_query_of_something_else_would_be_found(expression: str, fault: str) -> None:
    """A name, a label or a value that is misspelt."""
    assert faults_of(expression) == [fault]
