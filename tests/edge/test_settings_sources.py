"""Where settings come from, which place counts, and what is said of what nobody knows."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from gateway.errors import ConfigError
from gateway.settings import Settings
from gateway.settings_sources import DEFAULT, FILES, KEYS, Loaded, flag_of, load, load_settings, variable_of

PLACES = ("file", "key_file", "variable", "flag")
"""From the least to the most."""
TEXTS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=8)
NUMBERS = st.integers(1, 65535)
SAID: dict[str, st.SearchStrategy[Any]] = {
    "model": TEXTS,
    "model_name": TEXTS,
    "port": NUMBERS,
    "queue_turns": NUMBERS,
    "connect_timeout_s": NUMBERS,
    "allow_bridgeless": st.booleans(),
    "store": st.just("memory"),
    "noise_key": st.lists(TEXTS.map(lambda text: f"x{text}"), max_size=3),
    **dict.fromkeys(KEYS, TEXTS),
}
"""What settings of every kind may be."""


def of_place(place: str) -> st.SearchStrategy[dict[str, Any]]:
    kept = {name: said for name, said in SAID.items() if name in KEYS or place != "key_file"}
    return st.fixed_dictionaries({}, optional=kept)


def loaded(
    folder: Path, flags: dict[str, Any], variables: dict[str, Any], file: dict[str, Any] | str, name: str = "g.yaml"
) -> Loaded:
    """What comes of flags, variables by the name of their setting, and a file."""
    config = folder / name
    config.write_text(file if isinstance(file, str) else orjson.dumps(file).decode())
    environment = {variable_of(name): spelt(value) for name, value in variables.items()}
    return load({"config": str(config), **flags}, environment)


def spelt(value: object) -> str:
    return ",".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)


def plain(settings: Settings, name: str) -> object:
    value = getattr(settings, name)
    return value.get_secret_value() if name in KEYS else list(value) if isinstance(value, tuple) else value


@given(said=st.fixed_dictionaries({place: of_place(place) for place in PLACES}), model=TEXTS)
def test_each_setting_is_what_the_place_says_that_comes_first(
    tmp_path_factory: pytest.TempPathFactory, said: dict[str, dict[str, Any]], model: str
) -> None:
    """Flags, then variables, then files of keys, then the file of settings, then defaults; and it is said which."""
    folder = tmp_path_factory.mktemp("settings")
    said["file"].setdefault("model", model)
    files = {f"{name}_file": folder / name for name in said["key_file"]}
    for name, key in said["key_file"].items():
        (folder / name).write_text(f"{key}\n")

    found = loaded(folder, said["flag"], said["variable"] | files, said["file"])

    for name in Settings.model_fields:
        places = [place for place in PLACES if name in said[place]]
        if not places:
            assert found.sources[name] == DEFAULT
            assert getattr(found.settings, name) == Settings.model_fields[name].default
            continue
        assert plain(found.settings, name) == said[places[-1]][name]
        variable_file = variable_of(f"{name}_file")
        assert found.sources[name] == {
            "flag": flag_of(name),
            "variable": variable_of(name),
            "key_file": f"{variable_file} {folder / name}",
            "file": f"{folder / 'g.yaml'}:{name}",
        }[places[-1]]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.yaml", 'model: m\nport: 0\ninsecure: true\nengine: ["http://a:1", "http://b:2#dp=2"]\nrenderer_config: {a: 1}\n'),
        ("g.yml", "model: m\nport: 0\ninsecure: yes\nengine: http://a:1 http://b:2#dp=2\nrenderer_config: '{\"a\":1}'\n"),
        ("g.toml", 'model = "m"\nport = 0\ninsecure = true\nengine = ["http://a:1", "http://b:2#dp=2"]\nrenderer_config = {a = 1}\n'),
    ],
)  # fmt: skip
def test_a_file_is_yaml_or_toml(tmp_path: Path, name: str, text: str) -> None:
    """With lists and tables where that is what a setting is."""
    settings = loaded(tmp_path, {}, {}, text, name).settings

    assert (settings.model, settings.port, settings.insecure) == ("m", 0, True)
    assert settings.engine == ("http://a:1", "http://b:2#dp=2")
    assert settings.renderer_options.config == {"a": 1}


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    """As one of comments."""
    assert loaded(tmp_path, {"model": "m"}, {}, "# nothing yet\n").settings == Settings(model="m")
    assert loaded(tmp_path, {"model": "m"}, {}, "", "g.toml").settings == Settings(model="m")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("g.yaml", "model: m\nport: [1\n", "g.yaml: no YAML: line 3, column 1: "),
        ("g.yaml", "model: m\n\tport: 1\n", "g.yaml: no YAML: line 2, column 1: "),
        ("g.yaml", "model: \x00", "g.yaml: no YAML: "),
        ("g.yaml", "- model\n", "g.yaml: must be lines like"),
        ("g.yaml", "model: m\nport: 1\nport: 2\n", "g.yaml: line 3, column 1: port is said twice"),
        ("g.yaml", "model: m\n1: 2\n", "g.yaml: line 2, column 1: 1 is no name"),
        ("g.yaml", "model: !!python/object:os.x {}\n", "g.yaml: no YAML: line 1, column 8: "),
        ("g.toml", 'model = "m"\nport = \n', "g.toml: no TOML: "),
        ("g.toml", 'model = "m"\nmodel = "n"\n', "g.toml: no TOML: "),
        ("g.ini", "", "g.ini: which language is it in?"),
        ("g.yaml", f"engine: {'[' * 3000}{']' * 3000}\n", "g.yaml: no YAML of settings: it is nested too deeply"),
        ("g.toml", f"engine = {'[' * 3000}{']' * 3000}\n", "g.toml: no TOML of settings: it is nested too deeply"),
        ("g.yaml", "model: m\nhost: 2020-99-99\n", "g.yaml: no YAML: month must be in 1..12"),
        ("g.yml", f"model: m\nport: {'9' * 5000}\n", "g.yml: no YAML: Exceeds the limit"),
        ("g.toml", f"model = 'm'\nport = {'9' * 5000}\n", "g.toml: no TOML: Exceeds the limit"),
        (
            "g.yaml",
            f"model: m\nrenderer_config: {{a: {'9' * 30}}}\n",
            "g.yaml:renderer_config: cannot be said as JSON: ",
        ),
        ("g.yaml", "model: m\nrenderer_config: {1: 2}\n", "g.yaml:renderer_config: cannot be said as JSON: "),
        ("g.yaml", 'model: m\nrenderer_config: {a: "\\ud800"}\n', "g.yaml:renderer_config: cannot be said as JSON: "),
        ("g.yaml", "model: m\nprot: 1\n", "g.yaml:prot: there is no such setting; is port meant?"),
        ("g.yaml", "model-name: m\n", "g.yaml:model-name: there is no such setting; is model_name meant?"),
        ("g.yaml", "config: other.yaml\n", "g.yaml:config: there is no such setting"),
        ("g.yaml", "model: m\nport: many\n", "g.yaml:port: Input should be a valid integer"),
        ("g.yaml", "model: m\nport:\n", "g.yaml:port: Input should be a valid integer"),
        ("g.yaml", "model: m\nadmin_key: 123\n", "g.yaml:admin_key: Input should be a valid string"),
        ("g.yaml", "model: m\nhost: 0.0.0.0\n", "g.yaml:host: 0.0.0.0 is beyond loopback"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_with_its_place(tmp_path: Path, name: str, text: str, says: str) -> None:
    """The file, and in it the line or the setting."""
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, {}, {}, text, name)

    assert "\n" not in str(refused.value)
    assert says in str(refused.value)
    assert str(refused.value).removeprefix("--config ").startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("flags", "variables", "says"),
    [
        ({"prot": "1"}, {}, "--prot: there is no such setting; is --port meant?"),
        ({}, {"GATEWAY_PROT": "1"}, "GATEWAY_PROT: there is no such setting; is GATEWAY_PORT meant?"),
        ({}, {"GATEWAY_port": "1"}, "GATEWAY_port: there is no such setting; is GATEWAY_PORT meant?"),
        ({}, {"GATEWAY_XYZZY": "1"}, "GATEWAY_XYZZY: there is no such setting; `gateway serve --help`"),
        ({}, {"GATEWAY_ADMIN_KEY_FIL": "1"}, "is GATEWAY_ADMIN_KEY_FILE meant?"),
        ({"port": "many"}, {}, "--port: Input should be a valid integer"),
        ({}, {"GATEWAY_PORT": "many"}, "GATEWAY_PORT: Input should be a valid integer"),
        ({}, {"GATEWAY_HOST": "::"}, "GATEWAY_HOST: :: is beyond loopback"),
        ({"model": None}, {}, "--model: is required: give --model, GATEWAY_MODEL, or model in a --config file"),
    ],
)
def test_what_is_unknown_or_ill_is_named_as_it_was_given(
    flags: dict[str, object], variables: dict[str, str], says: str
) -> None:
    """With the setting that is nearest to it."""
    with pytest.raises(ConfigError) as refused:
        load({"model": "m", **flags}, variables)

    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GATEWAY_SERVICE_HOST", "10.0.0.1"),
        ("GATEWAY_SERVICE_PORT", "8080"),
        ("GATEWAY_SERVICE_PORT_HTTP", "8080"),
        ("GATEWAY_PORT", "tcp://10.0.0.1:8080"),
        ("GATEWAY_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("GATEWAY_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("GATEWAY_SIM_SERVICE_HOST", "10.0.0.1"),
        ("GATEWAY_SIM_PORT", "tcp://10.0.0.1:8080"),
    ],
)
def test_what_kubernetes_says_of_a_service_is_told_from_settings(variable: str, value: str) -> None:
    """The line names the variable, and what to do in the pod."""
    with pytest.raises(ConfigError, match=rf"^{variable}: is no setting, .*enableServiceLinks: false") as refused:
        load({"model": "m"}, {variable: value})

    assert "\n" not in str(refused.value)


def test_other_variables_are_nobodys_business() -> None:
    """Those of other programs, and those of our other commands."""
    others = {"PORT": "x", "MY_GATEWAY_X": "x", "GATEWAY": "x", "GATEWAY_ADMIN_URL": "x", "GATEWAY_TEACHER_KEY": "x"}

    assert load({"model": "m"}, others).settings == Settings(model="m")


def test_in_code_nothing_is_read_but_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever embeds a gateway is not surprised by a variable, or a mistake in one."""
    monkeypatch.setenv("GATEWAY_PORT", "1234")
    monkeypatch.setenv("GATEWAY_NONSENSE", "1")

    assert Settings(model="m").port == 8080
    with pytest.raises(ConfigError, match="GATEWAY_NONSENSE"):
        load_settings(model="m")


def test_an_empty_key_falls_through_to_the_next_place(tmp_path: Path) -> None:
    """`--admin-key "$KEY"` with nothing in it takes no lock away."""
    file = tmp_path / "key"
    file.write_text("from-a-file\n")
    said = loaded(
        tmp_path, {"admin_key": "", "admin_key_file": str(file)}, {"admin_key": ""}, {"model": "m", "admin_key": "x"}
    )

    assert said.settings.admin_key.get_secret_value() == "from-a-file"
    assert said.sources["admin_key"] == f"--admin-key-file {file}"
    said = loaded(tmp_path, {"admin_key_file": ""}, {"admin_key_file": ""}, {"model": "m", "admin_key": "x"})
    assert said.settings.admin_key.get_secret_value() == "x"


@pytest.mark.parametrize("content", [None, b"", b"\n", b"two\nlines\n", b"nul\x00", b"\xff"])
def test_a_file_of_a_key_holds_one_key(tmp_path: Path, content: bytes | None) -> None:
    """The line names the file and not what it holds."""
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"^--agent-key-file {file}: ") as refused:
        load({"model": "m", "agent_key_file": str(file)}, {})

    assert "two" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_mark_of_utf_8_at_the_beginning_of_a_file_is_no_part_of_it(tmp_path: Path) -> None:
    """As some editors write it, be it settings or a key."""
    mark = "\ufeff"
    (tmp_path / "key").write_text(f"{mark}k\n")
    flags = {"agent_key_file": str(tmp_path / "key")}
    made = Settings(model="m", agent_key=SecretStr("k"))

    assert loaded(tmp_path, flags, {}, f'{mark}model = "m"\n', "g.toml").settings == made
    assert loaded(tmp_path, flags, {}, f"{mark}model: m\n").settings == made


def test_every_file_that_can_be_named_is_of_a_key_or_the_one_of_settings() -> None:
    """So that each secret can be kept out of command lines and environments."""
    assert set(FILES) == {"config", "engine_key_file", "agent_key_file", "admin_key_file"}
