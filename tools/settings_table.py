"""Write the README's table of settings, between its two markers, as the code has them.

python tools/settings_table.py
"""

from pathlib import Path
from typing import get_origin

from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from gateway.settings import Settings
from gateway.settings_sources import flag_of, variable_of

README = Path(__file__).parent.parent / "README.md"
_BEGIN, _END = "<!-- settings: tools/settings_table.py writes them -->", "<!-- end of settings -->"


def table() -> str:
    """One row for each setting: its flag, its variable, its default, and what it is in a sentence."""
    rows = ["| flag | variable | default | |", "|---|---|---|---|"]
    for name, setting in Settings.model_fields.items():
        what = " ".join((setting.description or "").split()).partition(". ")[0].removesuffix(".").replace("|", "\\|")
        flag = f"`{flag_of(name)}`" + (" …" if get_origin(setting.annotation) is tuple else "")
        rows.append(f"| {flag} | `{variable_of(name)}` | {_said(setting.default)} | {what} |")
    return "\n".join(rows) + "\n"


def written(text: str) -> str:
    """`text` with the table between its markers as it is now.

    Raises:
        ValueError: a marker is not there.
    """
    head, begin, rest = text.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"the README must have {_BEGIN} and {_END}")
    return f"{head}{begin}\n\n{table()}\n{end}{tail}"


def _said(default: object) -> str:
    if default is PydanticUndefined:
        return "needed"
    if isinstance(default, bool):
        return "on" if default else "off"
    if default is None or default == () or isinstance(default, SecretStr):
        return ""
    if isinstance(default, tuple):
        return ", ".join(f"`{one}`" for one in default)
    return f"{default:g}" if isinstance(default, float) else str(default)


if __name__ == "__main__":
    README.write_text(written(README.read_text()))
