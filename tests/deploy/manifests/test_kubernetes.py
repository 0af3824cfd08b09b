"""What kustomize builds is valid in Kubernetes of several years, and holds together."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.manifests.variables import settings_of
from tests.readme.documents import ROOT, texts_of

FOLDER = Path(__file__).parent.parent.parent.parent / "deploy/kubernetes"
RELEASES = {
    "base": ("1.27", "1.29", "1.31", "1.33", "1.35", "1.37"),
    "sidecar": ("1.29", "1.31", "1.33", "1.35", "1.37"),
}
RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


@pytest.fixture(scope="module")
def built(validators, run) -> dict[str, str]:
    """What kustomize makes of each folder, as text."""
    return {name: run(validators / "kubectl", "kustomize", FOLDER / name) for name in RELEASES}


@pytest.fixture(scope="module")
def base(built) -> dict[tuple[str, str], dict]:
    """The resources of the base by kind and name."""
    return {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(built["base"])}


@pytest.fixture
def deployment(base) -> dict:
    return base["Deployment", "rollout-gateway"]["spec"]


@pytest.fixture
def sidecar(built) -> tuple[dict, dict]:
    """The Pod of the Job, and the gateway in it."""
    pod = yaml.safe_load(built["sidecar"])["spec"]["template"]["spec"]
    (gateway,) = pod["initContainers"]
    return pod, gateway


@pytest.mark.parametrize("release", RELEASES["base"])
def test_each_resource_is_valid(built, validators, run, tmp_path, release):
    files = [tmp_path / f"{folder}.yaml" for folder, releases in RELEASES.items() if release in releases]
    for file in files:
        file.write_text(built[file.stem])

    said = run(validators / "kubernetes-validate", "-k", release, "--strict", *files).splitlines()

    items = [item for file in files for item in yaml.safe_load_all(file.read_text())]
    kinds = [item["kind"].lower() for item in items if item["kind"] != "ServiceMonitor"]
    assert [line.split()[5].split("/")[0] for line in said if line.startswith("INFO")] == kinds
    assert [line for line in said if "ServiceMonitor" not in line and not line.startswith("INFO")] == []


def test_what_is_invalid_would_be_found(built, validators, tmp_path):
    """A sidecar is none before 1.28, and a misspelt field is one that is not known."""
    file = tmp_path / "built.yaml"
    file.write_text(built["sidecar"])
    check = [str(validators / "kubernetes-validate"), "-k"]
    old = subprocess.run([*check, "1.27", "--strict", str(file)], check=False, capture_output=True, text=True)
    file.write_text(built["sidecar"].replace("livenessProbe:", "livelinessProbe:"))
    misspelt = subprocess.run([*check, "1.37", "--strict", str(file)], check=False, capture_output=True, text=True)

    assert (old.returncode, misspelt.returncode) == (1, 1)
    assert "restartPolicy" in old.stdout
    assert "livelinessProbe" in misspelt.stdout


def test_the_service_monitor_is_one(base, validators):
    monitor = base["ServiceMonitor", "rollout-gateway"]
    misspelt = {**monitor, "spec": {**monitor["spec"], "endpoints": [{"port": "http", "intervall": "15s"}]}}
    check = [str(validators / "python"), str(Path(__file__).parent / "service_monitor.py")]
    said = subprocess.run(
        check, input=json.dumps([monitor, misspelt]), capture_output=True, text=True, check=True
    ).stdout

    assert said.splitlines() == ["[]", "['.spec.endpoints.0.intervall is unknown']"]


def test_the_overlay_of_the_documents_says_image_model_and_engines(validators, run, tmp_path):
    (overlay,) = texts_of(ROOT / "docs" / "deployment.md", "yaml")
    shutil.copytree(FOLDER / "base", tmp_path / "base")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/kustomization.yaml").write_text(overlay)

    resources = list(yaml.safe_load_all(run(validators / "kubectl", "kustomize", tmp_path / "mine")))

    (settings,) = [item["data"] for item in resources if item["kind"] == "ConfigMap"]
    (pod,) = [item["spec"]["template"]["spec"] for item in resources if item["kind"] == "Deployment"]
    assert settings == {
        "GATEWAY_MODEL": "Qwen/Qwen3-32B",
        "GATEWAY_ENGINE": "http://vllm-0.vllm:8000,http://vllm-1.vllm:8000",
        "GATEWAY_DRAIN_TIMEOUT_S": "30",
    }
    assert pod["containers"][0]["image"] == "registry.example/rollout-gateway:0.1.0"


def test_selectors_find_the_gateway_and_prometheus_finds_it_once(base, deployment):
    labels = deployment["template"]["metadata"]["labels"]
    services = [item for (kind, _), item in base.items() if kind == "Service"]
    monitor = base["ServiceMonitor", "rollout-gateway"]["spec"]

    selectors = [service["spec"]["selector"] for service in services]
    selectors += [base["PodDisruptionBudget", "rollout-gateway"]["spec"]["selector"]["matchLabels"]]
    selectors += [deployment["selector"]["matchLabels"]]
    assert all(selector and selector.items() <= labels.items() for selector in selectors)
    matched = [
        item for item in services if monitor["selector"]["matchLabels"].items() <= item["metadata"]["labels"].items()
    ]
    assert [item["metadata"]["name"] for item in matched] == ["rollout-gateway-admin"]
    assert {endpoint["port"] for endpoint in monitor["endpoints"]} <= {
        port["name"] for port in matched[0]["spec"]["ports"]
    }
    assert matched[0]["metadata"]["labels"][monitor["jobLabel"]] == "rollout-gateway"


def test_no_service_takes_the_name_of_a_setting(base, deployment, sidecar):
    """A Service's name becomes variables of every Pod: NAME_PORT is tcp://…, and GATEWAY_PORT a setting."""
    names = [name for kind, name in base if kind == "Service"]

    assert [name for name in names if name.startswith("gateway")] == []
    assert deployment["template"]["spec"]["enableServiceLinks"] is False
    assert sidecar[0]["enableServiceLinks"] is False


def test_the_settings_are_settings_and_the_drain_has_its_time(base, deployment):
    pod = deployment["template"]["spec"]
    (gateway,) = pod["containers"]
    (source,) = gateway["envFrom"]
    given = base["ConfigMap", source["configMapRef"]["name"]]["data"]
    secrets = {item["name"]: "secret" for item in gateway["env"]}

    settings = settings_of({**given, **secrets, "GATEWAY_HOST": "0.0.0.0"})

    waited_s = int(gateway["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] >= waited_s + settings.drain_timeout_s + 10


def test_the_keys_come_from_a_secret(base, deployment):
    (gateway,) = deployment["template"]["spec"]["containers"]
    keys = {item["name"]: item["valueFrom"]["secretKeyRef"] for item in gateway["env"]}
    (endpoint,) = base["ServiceMonitor", "rollout-gateway"]["spec"]["endpoints"]

    assert set(keys) == {"GATEWAY_ADMIN_KEY", "GATEWAY_AGENT_KEY"}
    credentials = endpoint["authorization"]["credentials"]
    assert credentials == {name: keys["GATEWAY_ADMIN_KEY"][name] for name in ("name", "key")}
    assert re.findall(r"--from-literal=(\w+)=", (FOLDER / "base/kustomization.yaml").read_text()) == [
        "admin_key",
        "agent_key",
    ]


def test_there_is_one_gateway_and_never_two(deployment):
    """Sessions live in its memory."""
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})


def test_pods_are_admitted_where_policy_is_restricted(deployment, sidecar):
    for pod, gateway in ((deployment["template"]["spec"], deployment["template"]["spec"]["containers"][0]), sidecar):
        assert gateway["securityContext"] == RESTRICTED
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False


def test_the_sidecar_is_on_loopback_outlives_the_trainer_and_has_time_to_drain(sidecar):
    pod, gateway = sidecar

    settings = settings_of({item["name"]: item["value"] for item in gateway["env"]})

    assert settings.host == "127.0.0.1"
    assert gateway["restartPolicy"] == "Always"
    assert pod["terminationGracePeriodSeconds"] >= settings.drain_timeout_s + 10
    (trainer,) = pod["containers"]
    assert {item["name"]: item["value"] for item in trainer["env"]} == {
        "ROLLOUT_URL": f"http://127.0.0.1:{settings.port}"
    }
