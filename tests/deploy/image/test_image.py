"""The image, built step by step as the Dockerfile says and run as an engine would: by Compose's commands, and as a sidecar."""

import signal
from collections.abc import Iterator

import pytest
import yaml

from tests.deploy.image.building import ROOT, Image, built
from tests.deploy.image.container import Container

ASKED = {"model": "rollout-gateway/demo", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}
COMPOSE = yaml.safe_load((ROOT / "deploy/compose/compose.yaml").read_text())["services"]
KEY = "a-key-of-this-test"
HOME = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Iterator[Image]:
    with built(tmp_path_factory.mktemp("secrets")) as image:
        yield image


@pytest.fixture(scope="module")
def sim(image) -> Iterator[Container]:
    """The simulated engine, as Compose starts it."""
    sim = Container.start(image, COMPOSE["sim"]["command"], {})
    sim.ready()
    yield sim
    assert sim.end() == (0, "")


def start_gateway(image: Image, sim: Container, port: str = "8080") -> Container:
    """A gateway with Compose's environment, but for what .env says, beside the engine, ready."""
    given = {name: value for name, value in COMPOSE["gateway"]["environment"].items() if "$" not in value}
    said = {
        "GATEWAY_MODEL": "rollout-gateway/demo",
        "GATEWAY_ENGINE": "http://127.0.0.1:8000",
        "GATEWAY_ADMIN_KEY": KEY,
    }
    gateway = Container.start(image, image.config["Cmd"], {**given, **said, "GATEWAY_PORT": port}, beside=sim)
    gateway.ready()
    return gateway


@pytest.fixture(scope="module")
def gateway(image, sim) -> Iterator[Container]:
    gateway = start_gateway(image, sim)
    yield gateway
    gateway.end(signal.SIGKILL)


def probed(container: Container, command: list[str], service: str) -> None:
    """A health check of Compose passes, and is a plain command."""
    assert command[0] == "CMD", service
    ran = container.run(command[1:])
    assert ran.returncode == 0, ran.stderr


def test_the_image_says_what_it_is(image):
    config = image.config

    assert config["User"] == "10001:10001"
    assert config["ExposedPorts"] == {"8080/tcp": {}}
    assert config["Entrypoint"] == ["/opt/gateway/bin/gateway"]
    assert config["Cmd"] == ["serve"]
    labels = {name.rpartition(".")[2]: value for name, value in config["Labels"].items() if "opencontainers" in name}
    assert labels.pop("description")
    assert labels == {"title": "rollout-gateway", "licenses": "Apache-2.0", "version": "1.2.3", "revision": "abc"}


def test_nothing_of_the_build_is_left_in_the_image(image):
    """Neither the secrets nor what installs packages nor the sources."""
    inside = ["etc/pip.conf", "run/secrets", "root/.cache", "src", "tools", "dist", "opt/gateway/bin/pip"]

    assert [path for path in inside if (image.root / path).exists()] == []
    written = [path for path in image.root.rglob("*.conf") if path.is_file() and "pip_ca" in path.read_text("latin-1")]
    assert written == []


def test_a_chat_call_is_answered_and_recorded_with_nothing_writable_and_no_rights(gateway):
    status = gateway.status()

    answer = gateway.call("POST", f"{HOME}/sessions/task/v1/chat/completions", ASKED, KEY)
    rows = gateway.call("GET", f"{HOME}/sessions/task/trajectories", None, KEY)

    assert answer[0] == 200
    assert answer[1]["usage"]["completion_tokens"] > 0
    assert sum(rows[1]["data"][0]["loss_mask"]) == answer[1]["usage"]["completion_tokens"]
    assert status["Uid"].split() == status["Gid"].split() == ["10001"] * 4
    assert {status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["NSpid"].split()[-1] == "1"
    for folder in ("/", "/tmp", "/cache", "/srv"):
        assert "Read-only file system" in gateway.run(["touch", f"{folder}/x"]).stderr, folder


def test_without_the_key_it_answers_only_how_it_is(gateway):
    assert gateway.call("GET", f"{HOME}/sessions")[0] == 401
    assert gateway.call("GET", f"{HOME}/ready")[0] == 200


def test_the_health_checks_of_image_and_compose_pass(gateway, sim):
    probed(gateway, image_check := gateway.image.config["Healthcheck"]["Test"], "the image")
    probed(gateway, COMPOSE["gateway"]["healthcheck"]["test"], "gateway")
    probed(sim, COMPOSE["sim"]["healthcheck"]["test"], "sim")
    assert image_check == ["CMD", "probe", "/health"]


def test_what_a_pod_runs_before_its_end_is_in_the_image(sim):
    (deployment,) = yaml.safe_load_all((ROOT / "deploy/kubernetes/base/deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    program, _ = container["lifecycle"]["preStop"]["exec"]["command"]

    assert sim.run([program, "0"]).returncode == 0


def test_the_health_check_fails_where_nobody_answers(sim):
    ran = sim.run(["probe", "/health", "8099"])

    assert ran.returncode == 1
    assert ran.stderr == "probe: port 8099 does not answer: [Errno 111] Connection refused\n"


def test_the_health_check_fails_where_the_answer_is_no_200(sim):
    ran = sim.run(["probe", "/nowhere", "8000"])

    assert (ran.returncode, ran.stderr) == (1, "probe: /nowhere is 404\n")


def test_sigterm_reaches_the_gateway_and_it_ends_well(image, sim):
    code, errors = start_gateway(image, sim, "8081").end()

    assert code == 0, errors


def test_beyond_loopback_it_asks_for_a_key(image):
    without = {"GATEWAY_MODEL": "rollout-gateway/demo"}

    code, errors = Container.start(image, ["serve"], without).end(signal.SIGCONT)

    assert code == 2
    assert "--admin-key" in errors
    assert errors.count("\n") == 1


def test_the_sidecar_of_a_job_is_ready_by_its_own_probes(image, sim):
    """As deploy/kubernetes/sidecar starts it: on loopback, without a key; the probes run inside."""
    job = yaml.safe_load((ROOT / "deploy/kubernetes/sidecar/job.yaml").read_text())
    (sidecar,) = job["spec"]["template"]["spec"]["initContainers"]
    given = {item["name"]: item["value"] for item in sidecar["env"]}
    here = {"GATEWAY_MODEL": "rollout-gateway/demo", "GATEWAY_ENGINE": "http://127.0.0.1:8000", "GATEWAY_PORT": "8082"}

    gateway = Container.start(image, image.config["Cmd"], {**given, **here}, beside=sim)
    url = gateway.ready()["url"]
    checks = [gateway.run(sidecar[probe]["exec"]["command"]) for probe in ("startupProbe", "livenessProbe")]
    answer = gateway.call("POST", f"{url}/v1/chat/completions", ASKED)

    assert gateway.end()[0] == 0
    assert url == "http://127.0.0.1:8082"
    assert [(check.returncode, check.stderr) for check in checks] == [
        (0, "probe: /ready is 200\n"),
        (0, "probe: /health is 200\n"),
    ]
    assert answer[0] == 200
