"""The tables of docs/renderers.md: ``python -m tests.models.shares [BACKEND ...]`` writes them anew.

Which backend serves which model by itself, and which share of turns each backend bridges in the same random
conversations. The shares of backends that are not named, or whose package is not installed, are left as they stand.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gateway.render import prime, tinker
from tests.models.account import Account, Kind, account_of
from tests.models.backends import TRIALS, Trial

FILE = Path(__file__).parents[2] / "docs" / "renderers.md"
_SHARES = (
    "| model | backend | thoughts kept | behind a user | behind tools | behind a cut |",
    "|---|---|---|---:|---:|---:|",
)
_MODELS = ("| models of | prime | tinker-cookbook | Fireworks |", "|---|---|---|---|")


def written() -> str:
    """The documentation."""
    return FILE.read_text()


def row(trial: Trial) -> str:
    """What came of a trial, as a line of the table."""
    account = account_of(trial)
    return _name(trial) + "".join(f" {_share(account, kind)} |" for kind in ("user", "tool", "cut"))


def _name(trial: Trial) -> str:
    kept = "as the template" if trial.retention == "template" else trial.retention
    return f"| {trial.model} | {trial.backend} | {kept} |"


def _share(account: Account, kind: Kind) -> str:
    bridged, turns = account.bridged[kind], account.turns[kind]
    return f"{bridged / turns:.0%} of {turns}" if turns else "–"


def shares(before: str, backends: Sequence[str]) -> list[str]:
    """The table of all trials; the lines of those that are of other backends, or not possible here, as they stand."""
    known = {_name(trial): line for line in before.splitlines() for trial in TRIALS if line.startswith(_name(trial))}
    lines = (
        row(trial) if trial.is_possible and trial.backend in backends else known.get(_name(trial)) for trial in TRIALS
    )
    return [*_SHARES, *filter(None, lines)]


def models() -> list[str]:
    """The table of models that are known by their names: the owners of models, and their renderers by package.

    A model stands where it is served.
    """
    columns: list[Mapping[str, str]] = [prime.installed().package.base.MODEL_RENDERER_MAP]
    for package in tinker.models().values():
        starts = {f"{start}…": name for start, name in package["prefixes"].items()}
        columns.append(
            {model: name for model, name in {**package["models"], **starts}.items() if not _is_in(columns, model)}
        )
    owners = sorted({model.partition("/")[0] for column in columns for model in column}, key=str.lower)
    return [
        *_MODELS,
        *(f"| {owner} | {' | '.join(_renderers(owner, column) for column in columns)} |" for owner in owners),
    ]


def _is_in(columns: Iterable[Mapping[str, str]], model: str) -> bool:
    return any(model in column for column in columns)


def _renderers(owner: str, column: Mapping[str, str]) -> str:
    """Names of renderers, and of how many models each is where it is of several."""
    of = Counter(name for model, name in column.items() if model.partition("/")[0] == owner)
    return ", ".join(f"`{name}`" + (f" × {count}" if count > 1 else "") for name, count in of.items()) or "–"


def with_table(text: str, name: str, lines: Iterable[str]) -> str:
    """A text whose table between the marks of this name is another."""
    before, start, rest = text.partition(f"<!-- table:{name} -->\n")
    _, end, after = rest.partition(f"<!-- /table:{name} -->\n")
    if not end:
        raise ValueError(f"there is no table:{name}")
    return before + start + "\n" + "\n".join(lines) + "\n\n" + end + after


if __name__ == "__main__":
    before, named = written(), sys.argv[1:] or [trial.backend for trial in TRIALS]
    FILE.write_text(with_table(with_table(before, "models", models()), "shares", shares(before, named)))
