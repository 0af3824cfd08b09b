"""Write which renderer tinker-cookbook recommends for which model, as the version that is installed says.

Run in the environment of ``tests/tinker``:

    $(tests/tinker/environment.sh)/bin/python tools/tinker_models.py

What stands in the file of Fireworks' cookbook stays as it is: that is a package of git only, and read by hand.
"""

import json
from importlib import metadata, util
from pathlib import Path
from typing import Any

# By its path, since the package itself need not be installed where this runs.
FILE = Path(__file__).parent.parent / "gateway" / "render" / "tinker_models.json"
_PREFIXES = {"thinkingmachines/Inkling": "thinkingmachines/Inkling-of-any-name"}
"""Beginnings of names that the cookbook takes for a family, and a name with which to ask what of."""


def recommended() -> dict[str, Any]:
    """The cookbook's version, its renderer of each model that it lists, and of names that begin like a family's."""
    from tinker_cookbook import model_info

    assert util.find_spec("tinker_cookbook.renderers")  # or it is another package of that name
    lists = [getattr(model_info, name)() for name in sorted(vars(model_info)) if _lists_models(name)]
    models = [f"{facts.organization}/{name}" for models in lists for name, facts in models.items()]
    renderer_of = model_info.get_recommended_renderer_name
    return {
        "version": metadata.version("tinker-cookbook"),
        "models": {model: renderer_of(model) for model in sorted(models)},
        "prefixes": {prefix: renderer_of(model) for prefix, model in _PREFIXES.items()},
    }


def _lists_models(name: str) -> bool:
    return name.startswith("get_") and name.endswith("_info")


if __name__ == "__main__":
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    FILE.write_text(json.dumps({**known, "tinker_cookbook": recommended()}, indent=2, ensure_ascii=False) + "\n")
    print(FILE)
