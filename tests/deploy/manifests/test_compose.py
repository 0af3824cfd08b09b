"""The Compose file is one for Compose itself, in both its ways to run, and for the schema."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.deploy.manifests.variables import settings_of

ROOT = Path(__file__).parent.parent.parent.parent
FOLDER = ROOT / "deploy/compose"
KEY = "a-key-of-this-test"


@pytest.fixture(params=[".env", "vllm.env"])
def project(request, compose, run) -> dict:
    """What Compose makes of its file: all names filled in, only the services of this way."""
    words = ["--project-directory", FOLDER, "--env-file", FOLDER / request.param, "config", "--format", "json"]
    return json.loads(run(compose / "docker-compose", *words, GATEWAY_ADMIN_KEY=KEY))


@pytest.mark.parametrize("release", ["2.2.2", "3.1.0"])
def test_the_file_fulfils_the_schema(compose, release):
    schema = json.loads((compose / f"schema-{release}.json").read_text())
    schema["$schema"] = (
        "http://json-schema.org/draft-07/schema#"  # one of them names it by https, which is no known name
    )
    file = yaml.safe_load((FOLDER / "compose.yaml").read_text())

    jsonschema.Draft7Validator(schema).validate(file)
    file["services"]["gateway"]["helthcheck"] = {}
    with pytest.raises(jsonschema.ValidationError, match="helthcheck"):
        jsonschema.Draft7Validator(schema).validate(file)


def test_each_way_has_one_engine_which_the_gateway_is_told_of(project):
    services = project["services"]
    engine = ({"sim", "vllm"} & set(services)).pop()

    assert set(services) == {"gateway", "prometheus", "grafana", engine}
    assert services["gateway"]["environment"]["GATEWAY_ENGINE"] == f"http://{engine}:8000"
    assert services["gateway"]["depends_on"][engine]["condition"] == "service_healthy"


def test_every_service_says_whether_it_is_well_and_has_no_port_beyond_loopback(project):
    for name, service in project["services"].items():
        assert service["healthcheck"]["test"][0] == "CMD", name
        assert {port["host_ip"] for port in service.get("ports", ())} <= {"127.0.0.1"}, name


def test_what_is_mounted_is_there(project):
    """The folders of deploy/ that Prometheus and Grafana read."""
    mounts = [mount for service in project["services"].values() for mount in service.get("volumes", ())]
    sources = {Path(mount["source"]).relative_to(ROOT / "deploy") for mount in mounts if mount["type"] == "bind"}

    assert {str(path) for path in sources} == {"prometheus", "grafana/provisioning", "grafana/dashboards"}
    assert [path for path in sources if not (ROOT / "deploy" / path).is_dir()] == []


def test_prometheus_gets_the_key_where_its_configuration_looks_for_it(project):
    (secret,) = project["services"]["prometheus"]["secrets"]
    configuration = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())

    assert project["secrets"][secret["source"]]["environment"] == "GATEWAY_ADMIN_KEY"
    files = {job["authorization"]["credentials_file"] for job in configuration["scrape_configs"]}
    assert files == {f"/run/secrets/{secret['source']}"}


def test_the_settings_are_settings(project):
    given = project["services"]["gateway"]["environment"]

    settings = settings_of({name: value for name, value in given.items() if name != "HF_TOKEN"})

    assert settings.admin_key.get_secret_value() == KEY
    assert seconds(project["services"]["gateway"]["stop_grace_period"]) >= settings.drain_timeout_s + 10


def test_without_a_key_nothing_starts(compose, run):
    with pytest.raises(AssertionError, match="required variable GATEWAY_ADMIN_KEY is missing a value: set it to a key"):
        run(compose / "docker-compose", "--project-directory", FOLDER, "config", GATEWAY_ADMIN_KEY="")


def seconds(duration: str) -> int:
    """A duration as Compose writes it: 1m30s."""
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", duration))
