"""Hold ServiceMonitors, a JSON list on stdin, to the Prometheus Operator's CRD, as typed: an ill one is an error, and for
each of the others a line is printed, the list of its fields that are unknown there.

Run by the environment of the validators. A type drops fields that it does not know, which is how they are found.
"""

import json
import sys
from typing import Any

from cloudcoil.models.prometheus_operator.v1 import ServiceMonitor


def unknown(given: Any, kept: Any, path: str = "") -> list[str]:
    """The fields of `given` that `kept` has not."""
    if isinstance(given, dict):
        return [
            found
            for name, value in given.items()
            for found in (
                unknown(value, kept[name], f"{path}.{name}") if name in kept else [f"{path}.{name} is unknown"]
            )
        ]
    if isinstance(given, list):
        return [
            found
            for number, pair in enumerate(zip(given, kept, strict=True))
            for found in unknown(*pair, f"{path}.{number}")
        ]
    return []


for monitor in json.load(sys.stdin):
    typed = ServiceMonitor.model_validate(monitor)
    print(unknown(monitor, typed.model_dump(by_alias=True, exclude_unset=True, mode="json")))
