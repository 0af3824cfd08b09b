"""The table of metrics, what the gateway shows, and the page that describes both."""

import re
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.core.types import EndedBy
from gateway.edge.metric_family import Family
from gateway.edge.metric_table import ABORTS, TABLE, codes
from tests.edge.house import House, OpenHouse
from tools.metrics_page import PAGE, page


def exposed(name: str) -> str:
    """What the parser calls a family: a counter's without its ending."""
    return name.removesuffix("_total")


async def test_a_gateway_shows_what_the_table_has_and_nothing_else(house: House) -> None:
    """Each by its name, type and help."""
    text = (await house.call("GET", "/metrics")).body
    shown = {family.name: (family.type, family.documentation) for family in text_string_to_metric_families(text)}

    assert shown == {exposed(family.name): (family.kind, family.help) for family in TABLE.values()}


async def test_whatever_is_closed_is_there_from_the_start(house: House) -> None:
    """So that a rate is known before the first failure."""
    text = (await house.call("GET", "/metrics")).body
    series = {
        (sample.name, tuple(sample.labels.values()))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    for family in TABLE.values():
        if family.kind == "counter" and family.is_closed:
            assert {(family.name, values) for values in family.combinations()} <= series
        if family.kind == "histogram":
            assert {(f"{family.name}_count", values) for values in family.combinations()} <= series


async def test_the_only_series_at_the_start_are_those_of_the_table_and_of_the_ranks(open_house: OpenHouse) -> None:
    """Of a metric that is told by engine or rank there is one for each that is there."""
    house = await open_house(sim={"ranks": 3}, ranks=3)
    text = (await house.call("GET", "/metrics")).body

    for family in text_string_to_metric_families(text):
        told = TABLE.get(family.name) or TABLE[f"{family.name}_total"]
        if "rank" in told.labels:
            assert {sample.labels["rank"] for sample in family.samples} == {"0", "1", "2"}
            assert len({sample.labels["engine"] for sample in family.samples}) == 1


def test_the_page_is_as_the_table_has_it() -> None:
    """`python -m tools.metrics_page` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("family", TABLE.values(), ids=TABLE)
def test_names_are_as_prometheus_has_them(family: Family) -> None:
    """Counters end in _total and nothing else does, seconds and bytes are named, no label is one of its own."""
    assert re.fullmatch("gateway_[a-z]+(_[a-z]+)*", family.name)
    assert family.name.endswith("_total") == (family.kind == "counter")
    assert not family.name.endswith(("_count", "_sum", "_bucket", "_created"))
    assert family.unit not in ("seconds", "bytes") or family.unit in family.name
    assert family.help.endswith(".")
    assert family.look
    assert not family.labels.keys() & {"le", "quantile", "job", "instance"}
    assert bool(family.bounds) == (family.kind == "histogram")
    assert list(family.bounds) == sorted(set(family.bounds))


def test_a_turn_is_aborted_in_words_that_turns_have() -> None:
    """They are some of those that say how a turn ended."""
    assert set(ABORTS) < set(get_args(EndedBy))


def test_each_error_has_a_code_of_its_own_kind() -> None:
    """Those that inherit one share it."""
    assert len(codes()) == len(set(codes()))
    assert {"internal_error", "invalid_request", "engine_unavailable", "ledger_error"} <= set(codes())
