"""The series that PromQL expressions speak of, read no further than needed to hold them against the table of metrics."""

import re
from dataclasses import dataclass

_SELECTOR = re.compile(r"\b(?P<name>gateway_\w+|up)\b(?:\{(?P<matchers>[^}]*)\})?")
_MATCHER = re.compile(r'(?P<label>\w+)(?P<how>=~|!~|!=|=)"(?P<value>[^"]*)"')
_GROUPED = re.compile(r"\b(?:by|on) \((?P<labels>[^)]*)\)")


@dataclass(frozen=True, slots=True)
class Selector:
    """The series of one metric."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]
    """Label, operator, value."""


def selectors(expression: str) -> list[Selector]:
    """Every metric that an expression names, with the matchers behind it."""
    # Variables of job and instance hold no brace; no value here holds an escaped quotation mark.
    return [
        Selector(found["name"], tuple(matcher.groups() for matcher in _MATCHER.finditer(found["matchers"] or "")))  # type: ignore[misc]  # three each
        for found in _SELECTOR.finditer(expression)
    ]


def grouped(expression: str) -> set[str]:
    """The labels that an expression keeps apart."""
    return {label.strip() for found in _GROUPED.finditer(expression) for label in found["labels"].split(",")}
