"""The sim answers what a real vLLM was asked with the same status and shape: the captures that the manifest lists."""

import asyncio
from pathlib import Path

import orjson
import pytest

from tests.sim.conftest import eventually
from tests.sim.shape import shape_of_answer

GOLDEN = Path(__file__).parent / "golden"
MANIFEST = orjson.loads((GOLDEN / "manifest.json").read_bytes())
MIDWAY_S = 0.05


ALONE = {"before", "during", "sim"}
"""What a capture needs a sim of its own for: other settings, or requests that change it."""
CAPTURES = [
    pytest.param(version, {name: how}, id=f"{version}-{name}")
    for version, answered in MANIFEST["answered"].items()
    for name, how in answered.items()
    if ALONE & how.keys()
] + [
    pytest.param(version, {name: how for name, how in answered.items() if not ALONE & how.keys()}, id=version)
    for version, answered in MANIFEST["answered"].items()
]


def body_of(request, script) -> bytes:
    """The body that was sent to vLLM, in which the sim is told what the real model happened to say."""
    if "raw_body" in request:
        return request["raw_body"].encode()
    body = request.get("body", {})
    ids = body.get("token_ids")
    if isinstance(ids, dict):
        body["token_ids"] = [ids["repeat"]] * ids["times"]
    if script is not None:
        body["sampling_params"].setdefault("extra_args", {})["script"] = script
    return orjson.dumps(body)


@pytest.mark.parametrize(("version", "captures"), CAPTURES)
async def test_a_capture_is_answered_as_vllm_answered_it(start, tokenizer_folder, version, captures):
    """Same status; same keys and types; of errors and finish reasons the same values."""
    settings = MANIFEST["sim"] | {
        name: value for how in captures.values() for name, value in how.get("sim", {}).items()
    }
    sim = await start(version=version.removeprefix("v"), tokenizer=tokenizer_folder, **settings)
    for name, how in captures.items():
        golden = orjson.loads((GOLDEN / version / f"{name}.json").read_bytes())
        response = await answered(sim, golden["request"], how)
        body = await response.read()

        assert response.status == golden["status"], name
        assert shape_of_answer(body, response.headers.get("Content-Type", "")) == golden["shape"], name


async def answered(sim, request, how):
    """What the sim answers to a request, with what is sent before and while it is under way."""

    async def send(method, path, body=None):
        async with sim.http.request(method, path, json=body) as response:
            await response.read()

    for step in how.get("before", ()):
        await send(**step)
    data = body_of(request, how.get("script")) if request["method"] == "POST" else None
    call = asyncio.create_task(
        sim.http.request(request["method"], request["path"], data=data, headers=request.get("headers"))
    )
    for step in how.get("during", ()):
        await eventually(lambda: sim.log.running or call.done())
        await asyncio.sleep(MIDWAY_S)
        await send(**step)
    return await call


@pytest.mark.parametrize("version", MANIFEST["answered"])
async def test_every_metric_is_one_of_vllm_with_its_labels(start, version):
    """The sim has fewer than a real server, and none that a real server has not."""
    real = orjson.loads((GOLDEN / version / "metrics.json").read_bytes())
    sim = await start(version=version.removeprefix("v"))
    lines = [line for line in (await sim.metrics()).splitlines() if not line.startswith("#")]
    ours = {
        line.partition("{")[0]: sorted(label.partition("=")[0] for label in line.split("{")[1].split("}")[0].split(","))
        for line in lines
    }
    told = set(ours.pop("vllm:cache_config_info"))
    assert told <= set(real["vllm:cache_config_info"])  # of thirty-odd labels, those that say how much it holds
    assert {name: real.get(name) for name in ours} == ours
    assert len(ours) == 8


def test_the_manifest_gives_a_reason_for_what_it_leaves_out():
    """And it answers what it says it does: a golden file for each, and no other."""
    for version, answered in MANIFEST["answered"].items():
        assert {path.stem for path in (GOLDEN / version).glob("*.json")} == {*answered, "metrics"}
    assert all(entry["reason"] and entry["captures"] for entry in MANIFEST["not answered"])
