"""`gateway check` on engines: what it finds before a first turn does, and what it says to do about it."""

from collections.abc import Awaitable, Callable, Mapping

import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port

from gateway.edge.check import Finding, check_engine
from gateway.sim import FAULTS, JOURNAL, create_sim
from gateway.sim.logprobs import Mode
from tests.edge.house import MODEL_NAME, Application, probes, serving

RANKS = 2
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def engine(
    version: str = "0.32.0", *, model: str = MODEL_NAME, logprobs_mode: Mode = "processed_logprobs"
) -> Application:
    """A sim with two ranks."""
    return create_sim(version=version, model=model, ranks=RANKS, logprobs_mode=logprobs_mode)


def foreign(answers: Mapping[str, web.Response]) -> Application:
    """A server that is no vLLM: it answers a GET of these paths, and nothing else."""
    app = web.Application()
    for path, answer in answers.items():

        async def give(_request: web.Request, answer: web.Response = answer) -> web.Response:
            return web.Response(body=answer.body, status=answer.status, content_type=answer.content_type)

        app.router.add_get(path, give)
    return app


async def findings(app: Application, *, key: str = "", ranks: int = RANKS) -> dict[str, Finding]:
    """The findings about a running engine, by what was looked at."""
    async with serving(app) as server:
        url = str(server.make_url("")).rstrip("/")
        found = await check_engine(f"{url}#dp={ranks}", [MODEL_NAME], [1, 2, 3], key=key)
    assert all(finding.check.startswith(f"{url} ") for finding in found)
    assert all(bool(finding.remedy) is (finding.status != "ok") for finding in found)
    return {finding.check.removeprefix(f"{url} "): finding for finding in found}


def statuses(found: Mapping[str, Finding]) -> dict[str, str]:
    """What was looked at, and how it is."""
    return {name: finding.status for name, finding in found.items()}


async def test_a_good_engine_is_found_good() -> None:
    """Everything is ok, and one token was asked of it."""
    sim = engine()

    found = await findings(sim)

    looked_at = ["version", "models", "keep-alive", "scale-out", "logprobs", "logprobs-mode", "ranks"]
    assert statuses(found) == dict.fromkeys(looked_at, "ok")
    assert "0.32.0" in found["version"].finding
    assert str(RANKS) in found["ranks"].finding
    turns = [entry for entry in sim[JOURNAL].entries if entry.request_id == "check"]
    assert sum(len(entry.emitted) for entry in turns) == 1
    assert [len(entry.emitted) for entry in probes(sim)] == [1, 1, 0]


async def test_a_good_engine_that_returns_sampling_masks_is_found_good() -> None:
    """It refuses calls without a `top_k`."""
    found = await findings(
        create_sim(model=MODEL_NAME, logprobs_mode="processed_logprobs", sampling_mask=True), ranks=1
    )

    assert set(statuses(found).values()) == {"ok"}


async def test_raw_logprobs_are_a_warning_with_the_flag_that_helps() -> None:
    """As vLLM has them by default; what cannot be found out is the same, with its reason."""
    found = (await findings(engine(logprobs_mode="raw_logprobs")))["logprobs-mode"]
    assert (found.status, found.finding.partition(":")[0]) == ("warn", "raw")
    assert "--logprobs-mode processed_logprobs" in found.remedy

    found = (await findings(engine("0.20.2")))["logprobs-mode"]
    assert found.status == "warn"
    assert "unknown (" in found.finding
    assert "0.22" in found.finding


async def test_an_old_engine_has_no_ranks() -> None:
    """It reads no header, and its alternatives tell nothing; all else is as good as new."""
    found = await findings(engine("0.20.2"))

    assert {name for name, status in statuses(found).items() if status != "ok"} == {"ranks", "logprobs-mode"}
    assert found["ranks"].status == "warn"
    assert "0.22" in found["ranks"].finding


@pytest.mark.parametrize(
    ("kind", "check", "remedy"),
    [
        ("scale_out_disabled", "scale-out", "--enable-scale-out"),
        ("not_found", "scale-out", "--enable-scale-out"),
        ("error_500", "scale-out", "log"),
        ("no_logprobs", "logprobs", "evidence"),
        ("null_logprob", "logprobs", "evidence"),
        ("sentinel_logprob", "logprobs", "evidence"),
        ("wrong_logprob_id", "logprobs", "evidence"),
        ("garbage", "logprobs", "evidence"),
        ("error_event", "logprobs", "evidence"),
        ("no_finish", "logprobs", "evidence"),
    ],
)
@pytest.mark.parametrize("version", ["0.20.2", "0.32.0"])
async def test_each_fault_is_found_with_its_remedy(version: str, kind: str, check: str, remedy: str) -> None:
    """What hangs on it is not asked."""
    sim = engine(version)
    sim[FAULTS].inject(kind)

    found = await findings(sim)

    assert {name for name, status in statuses(found).items() if status == "fail"} == {check}
    assert remedy in found[check].remedy
    assert "ranks" not in found


async def test_an_engine_that_drops_the_call_is_found_out() -> None:
    """What was found before stays in the report."""
    sim = engine()
    sim[FAULTS].inject("cut")

    found = await findings(sim)

    assert found["version"].status == "ok"
    assert (found["scale-out"].status, "dropped the call" in found["scale-out"].finding) == ("fail", True)
    assert "log" in found["scale-out"].remedy


async def test_an_engine_that_is_down_is_one_line() -> None:
    """It does not raise, and says where to look."""
    (found,) = await check_engine(f"http://127.0.0.1:{unused_port()}", [MODEL_NAME], [])

    assert found.status == "fail"
    assert "--engine" in found.remedy


async def test_a_model_by_another_name_is_a_warning() -> None:
    """Agents have to know it; both ways out are named."""
    found = await findings(engine(model="other"))

    assert found["models"].status == "warn"
    assert "other" in found["models"].finding
    assert f"--served-model-name {MODEL_NAME}" in found["models"].remedy


@pytest.mark.parametrize(
    ("version", "status"), [("0.19.3", "fail"), ("0.20.0", "ok"), ("0.33.1rc2.dev7+g1234", "warn"), ("1.0", "warn")]
)
async def test_a_release_that_was_not_tested_is_said(version: str, status: str) -> None:
    """Too old cannot work; newer may."""
    found = await findings(foreign({"/version": web.json_response({"version": version})}))

    assert found["version"].status == status
    assert version in found["version"].finding


async def test_ranks_that_are_not_used_are_named() -> None:
    """And how to name them all to the gateway."""
    found = (await findings(engine(), ranks=1))["ranks"]

    assert found.status == "warn"
    assert "#dp=2" in found.remedy


async def test_ranks_that_are_not_there_are_a_failure() -> None:
    """Each session that is sent to one of them would be refused, and stay there."""
    found = (await findings(engine(), ranks=3))["ranks"]

    assert found.status == "fail"
    assert "#dp=2" in found.remedy


async def test_an_engine_that_wants_a_key_says_which_flag() -> None:
    """And is not mistaken for something else."""

    @web.middleware
    async def locked(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == "/version" or request.headers.get("Authorization") == "Bearer right":
            return await handler(request)
        return web.json_response({"error": "Unauthorized"}, status=401)

    def one() -> Application:
        sim = engine()
        sim.middlewares.insert(0, locked)
        return sim

    refused, served = await findings(one()), await findings(one(), key="right")

    assert (refused["models"].status, refused["scale-out"].status) == ("fail", "fail")
    assert "--engine-key" in refused["models"].remedy
    assert "--engine-key" in refused["scale-out"].remedy
    assert set(statuses(served).values()) == {"ok"}


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"/version": web.json_response([1]), "/v1/models": web.Response(text="<html>")},
        {"/version": web.json_response({"version": 3}), "/v1/models": web.json_response({"data": [1, {"id": "m"}]})},
        {"/v1/models": web.json_response({"data": "m"})},
    ],
)
async def test_what_is_no_vllm_is_found_out(answers: Mapping[str, web.Response]) -> None:
    """Whatever it answers, the check does not fail itself."""
    found = await findings(foreign(answers))

    assert [found[name].status for name in ("version", "models", "scale-out")] == ["warn", "fail", "fail"]


async def test_an_engine_behind_what_closes_connections_is_a_warning() -> None:
    """Each turn would pay for a connection."""

    @web.middleware
    async def closing(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        response.force_close()
        return response

    app = foreign({"/version": web.json_response({"version": "0.32.0"})})
    app.middlewares.append(closing)

    found = await findings(app)

    assert found["keep-alive"].status == "warn"


async def test_a_rank_answered_in_another_way_is_said() -> None:
    """A 5xx for an unknown rank is neither honoured nor ignored."""

    @web.middleware
    async def odd(request: web.Request, handler: Handler) -> web.StreamResponse:
        return web.Response(status=500) if "X-data-parallel-rank" in request.headers else await handler(request)

    sim = create_sim(model=MODEL_NAME)
    sim.middlewares.append(odd)

    found = await findings(sim, ranks=1)

    assert found["ranks"].status == "warn"
    assert "500" in found["ranks"].finding
