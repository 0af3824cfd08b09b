"""Write the golden files from a folder of captures: ``python tests/sim/golden/make.py FOLDER``.

The folder holds one folder per release, ``v0.32.0`` and so on, with one JSON file per request that a real vLLM
answered. Kept are the request, the status and the shape of the answer, of those that the manifest lists; a capture
that it neither lists nor gives a reason for is an error.
"""

import sys
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))

from tests.sim.shape import shape_of_answer  # noqa: E402  # the repository is not on the path when this is run

RUN = 300
"""From so many equal ids in a row on, a list is written as how often it repeats."""


def main(captures: Path) -> None:
    manifest = orjson.loads((HERE / "manifest.json").read_bytes())
    for version, answered in manifest["answered"].items():
        target = HERE / version
        target.mkdir(exist_ok=True)
        for old in target.glob("*.json"):
            old.unlink()
        reasons = [pattern for entry in manifest["not answered"] for pattern in entry["captures"]]
        for path in sorted((captures / version).glob("*.json")):
            capture = orjson.loads(path.read_bytes())
            if path.stem in answered:
                (target / path.name).write_text(written(capture))
            elif "request" in capture and not any(fnmatch(f"{version}/{path.stem}", one) for one in reasons):
                sys.exit(f"{version}/{path.stem} is neither answered nor excused")
        (target / "metrics.json").write_text(families(orjson.loads((captures / version / "metrics.json").read_bytes())))


def written(capture: dict[str, Any]) -> str:
    """A golden file: three lines that a reader can compare."""
    request, response = capture["request"], capture["response"]
    content_type = dict(response["headers"]).get("content-type", "")
    kept = {name: request[name] for name in ("method", "path", "headers", "body", "raw_body") if request.get(name)}
    if "body" in kept:
        kept["body"] = {name: shortened(value) for name, value in kept["body"].items()}
    parts = {
        "request": kept,
        "status": response["status"],
        "shape": shape_of_answer(response_bytes(response), content_type),
    }
    lines = [f'"{name}": {orjson.dumps(part).decode()}' for name, part in parts.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def response_bytes(response: dict[str, Any]) -> bytes:
    """The body as it came, or the JSON that was made of it."""
    if response.get("raw") is not None:
        return str(response["raw"]).encode()
    return orjson.dumps(response["body"])


def shortened(value: Any) -> Any:
    """A list of one id many times over, as that id and how often."""
    if isinstance(value, list) and len(value) >= RUN and len(list(groupby(value))) == 1:
        return {"repeat": value[0], "times": len(value)}
    return value


def families(capture: dict[str, Any]) -> str:
    """The samples of the metrics route: names, and the names of their labels."""
    response = capture["response"]
    text = response["raw"] if response.get("raw") is not None else response["body"]
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("vllm:") and "_bucket{" not in line:
            name, _, labels = line.partition("{")
            found[name] = sorted(label.partition("=")[0] for label in labels.partition("}")[0].split(","))
    return orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode() + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
