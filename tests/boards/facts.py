"""What an expression may say of the gateway's metrics: what their table has."""

import re

from gateway.edge.metric_table import TABLE
from tests.boards.selectors import Selector, grouped, selectors

_TARGET = {"job", "instance"}
"""The labels that Prometheus itself gives to what it scrapes."""
_SUFFIXES = ("_bucket", "_sum", "_count")


def family_of(name: str) -> str:
    """The metric of the table that a series belongs to."""
    base = next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)
    return base if base in TABLE and TABLE[base].kind == "histogram" else name


def families_in(expression: str) -> set[str]:
    """The metrics of the table that an expression names."""
    return {family_of(selector.name) for selector in selectors(expression)} - {"up"}


def faults_of(expression: str) -> list[str]:
    """Metrics, labels and values of labels in an expression that no gateway has."""
    named = selectors(expression)
    faults = [fault for selector in named if selector.name != "up" for fault in _faults_of(selector)]
    known = _TARGET.union(*({"le", *TABLE[name].labels} for name in families_in(expression) if name in TABLE))
    faults += [f"no metric of it has a label {label}" for label in sorted(grouped(expression) - known)]
    return faults or ([] if named else ["it names no metric"])


def _faults_of(selector: Selector) -> list[str]:
    name = family_of(selector.name)
    if name not in TABLE:
        return [f"there is no {name}"]
    if TABLE[name].kind == "histogram" and selector.name == name:
        return [f"{name} is a histogram: its series end in _bucket, _sum or _count"]
    faults = []
    for label, how, value in selector.matchers:
        if label in _TARGET:
            continue
        if label not in TABLE[name].labels:
            faults.append(f"{name} has no label {label}")
        elif (known := TABLE[name].labels[label]) is not None:
            values = value.split("|") if how in ("=~", "!~") else [value]
            faults += [f"{name} has no {label} {one}" for one in values if not _is_one_of(one, known)]
    return faults


def _is_one_of(pattern: str, known: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, value) for value in known)
