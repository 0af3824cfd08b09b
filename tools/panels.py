"""Ask a Prometheus what every panel of every dashboard asks: ``python -m tools.panels URL``.

Each query is asked as Grafana would, once for now and once over a range, with the variables filled in: all gateways
that there are, unless told otherwise. A table says what came back; the exit status is 1 if any query has no data, be it
that there are no series or that all they have is NaN.
"""

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent.parent / "deploy" / "grafana" / "dashboards"
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")


class PrometheusError(Exception):
    """It is not there, or would not answer; in one line."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One query of a dashboard."""

    board: str
    panel: str
    expression: str
    """With the dashboard's variables still in it; ``label_values(series, label)`` for a variable's own."""
    variable: str | None = None
    """The variable whose values it asks for."""

    def filled(self, variables: Mapping[str, str]) -> str:
        """The expression without variables; the longest name goes first, since one may begin like another."""
        text = self.expression
        for name in sorted(variables, key=len, reverse=True):
            text = text.replace(f"${{{name}}}", variables[name]).replace(f"${name}", variables[name])
        return text


@dataclass(frozen=True, slots=True)
class Found:
    """What a query gave: how many series with a number in them there are now, and were over the range."""

    ask: Ask
    now: int
    ranged: int

    @property
    def has_data(self) -> bool:
        """Whether both are something."""
        return self.now > 0 and self.ranged > 0


def asks(folder: Path = FOLDER) -> list[Ask]:
    """Every query of the dashboards in a folder, those of their variables included."""
    return [ask for path in sorted(folder.glob("*.json")) for ask in _asks_of(json.loads(path.read_text("utf-8")))]


def _asks_of(board: Mapping[str, Any]) -> Iterator[Ask]:
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield Ask(board["title"], f"variable {variable['name']}", variable["query"], variable["name"])
    for row in board["panels"]:
        for panel in (row, *row.get("panels", ())):  # a row that is folded holds its own
            for target in panel.get("targets", ()):
                yield Ask(board["title"], panel["title"], target["expr"])


class Prometheus:
    """A Prometheus that is asked, and how far back."""

    def __init__(self, url: str, *, range_s: float, step_s: float) -> None:
        self._url, self._range_s, self._step_s = url.rstrip("/"), range_s, step_s
        self._http = urllib3.PoolManager(retries=False, timeout=30.0)

    def found(self, ask: Ask, variables: Mapping[str, str]) -> Found:
        """What a query of a panel gives now and over the range.

        Raises:
            PrometheusError: it did not answer, or says that the query is ill.
        """
        expression, end_s = ask.filled(variables), time.time()
        span = {"start": end_s - self._range_s, "end": end_s, "step": self._step_s}
        now = self._get("query", {"query": expression, "time": end_s})["result"]
        ranged = self._get("query_range", {"query": expression, **span})["result"]
        return Found(
            ask, _with_numbers([[one["value"]] for one in now]), _with_numbers([one["values"] for one in ranged])
        )

    def values(self, ask: Ask, variables: Mapping[str, str]) -> list[str]:
        """What a variable can be.

        Raises:
            PrometheusError: it did not answer, or the variable asks for something else than the values of a label.
        """
        if not (asked := _LABEL_VALUES.fullmatch(ask.filled(variables))):
            raise PrometheusError(f"{ask.board}: {ask.panel} must be label_values(series, label): {ask.expression}")
        values: list[str] = self._get(f"label/{asked['label']}/values", {"match[]": asked["series"]})
        return values

    def _get(self, path: str, fields: Mapping[str, Any]) -> Any:
        try:
            answer = self._http.request("GET", f"{self._url}/api/v1/{path}", fields=dict(fields))
            body = answer.json()
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise PrometheusError(f"{self._url} does not answer as a Prometheus does: {error}") from error
        if body.get("status") != "success":
            raise PrometheusError(f"{self._url} refuses {fields}: {body.get('error')}")
        return body["data"]


def look(prometheus: Prometheus, variables: Mapping[str, str], folder: Path = FOLDER) -> list[Found]:
    """What every query of the dashboards gives; variables that are not given are all that they can be.

    Raises:
        PrometheusError: as `Prometheus.found` and `Prometheus.values`.
    """
    given, found = dict(variables), []
    for ask in asks(folder):
        if ask.variable is None:
            found.append(prometheus.found(ask, given))
            continue
        values = prometheus.values(ask, given)
        found.append(Found(ask, len(values), len(values)))
        given.setdefault(ask.variable, "|".join(re.escape(value).replace("\\", "\\\\") for value in values))
    return found


def _with_numbers(series: Sequence[Any]) -> int:
    return sum(any(not math.isnan(float(value)) for _, value in points) for points in series)


def table(found: Sequence[Found]) -> Table:
    """A line for each query."""
    shown = Table("dashboard", "panel", "now", "range", "query", title="series with data")
    for one in found:
        style = "" if one.has_data else "bold red"
        cells = one.ask.board, one.ask.panel, str(one.now), str(one.ranged), one.ask.expression
        shown.add_row(*(cell.replace("[", r"\[") for cell in cells), style=style)
    return shown


def main() -> int:
    """Ask, print, and say whether all had data."""
    parser = argparse.ArgumentParser(description="Ask a Prometheus what every panel of every dashboard asks.")
    parser.add_argument("url", help="base URL of the Prometheus, such as http://127.0.0.1:9090")
    parser.add_argument("--job", help="jobs to ask about, a regular expression; all that have gateways if not given")
    parser.add_argument("--instance", help="gateways to ask about, likewise")
    parser.add_argument("--rate-interval", default="1m", help="what rates are taken over: four scrapes at least")
    parser.add_argument("--range-s", type=float, default=3600.0, help="how far back the range begins")
    parser.add_argument("--step-s", type=float, default=15.0, help="between one point of the range and the next")
    given = parser.parse_args()
    prometheus = Prometheus(given.url, range_s=given.range_s, step_s=given.step_s)
    variables = {"job": given.job, "instance": given.instance, "__rate_interval": given.rate_interval}
    try:
        found = look(prometheus, {name: value for name, value in variables.items() if value is not None})
    except PrometheusError as error:
        print(f"panels: {error}", file=sys.stderr)
        return 2
    Console(soft_wrap=True).print(table(found))
    empty = [one for one in found if not one.has_data]
    print(f"{len(found)} queries, {len(empty)} without data")
    return 1 if empty else 0


if __name__ == "__main__":
    sys.exit(main())
