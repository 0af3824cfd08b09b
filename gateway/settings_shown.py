"""Settings in effect, as ``gateway config`` shows them: each with its source, secrets not at all."""

from pydantic import SecretStr
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.core.types import JsonObject
from gateway.settings import Settings
from gateway.settings_sources import DEFAULT, Loaded


def encode_settings(loaded: Loaded) -> dict[str, JsonObject]:
    """Of each setting ``{"value", "source"}``, by its name; of a secret the value is whether it is ``set``."""
    return {
        name: {"value": _plain(getattr(loaded.settings, name)), "source": loaded.sources[name]}
        for name in Settings.model_fields
    }


def show_settings(loaded: Loaded) -> None:
    """Print them: a line for each, what was said by somebody in bold."""
    table = Table(box=None, pad_edge=False)
    for column in ("setting", "value", "source"):
        table.add_column(column, overflow="fold")
    for name, one in encode_settings(loaded).items():
        value = one["value"]
        told = ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
        style = "" if one["source"] == DEFAULT else "bold"
        table.add_row(Text(name), Text(told), Text(str(one["source"])), style=style)
    Console().print(table)


def _plain(value: object) -> object:
    if isinstance(value, SecretStr):
        return "set" if value.get_secret_value() else "unset"
    return list(value) if isinstance(value, tuple) else value
