"""Where settings come from: flags, else ``GATEWAY_…`` variables, else files of keys, else ``--config``, else defaults.

What nobody knows is an error wherever it stands, and names what is nearest to it: a setting that is misspelt would
otherwise be its default without a word.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError

from gateway.errors import ConfigError
from gateway.settings import Settings
from gateway.settings_file import read_config, read_key

DEFAULT = "default"
KEYS = tuple(name for name, field in Settings.model_fields.items() if field.annotation is SecretStr)
"""The settings that are secret."""
FILES = {
    "config": "File of settings, .yaml or .toml: a line for each, by its name with underscores.",
    **{f"{name}_file": f"File that holds what {name} is, in place of saying it." for name in KEYS},
}
"""What names files that settings are read from. Beside the settings each is a flag and a variable; those of keys may
stand in the file of settings, too."""
_PREFIX = "GATEWAY_"
_OF_OTHER_COMMANDS = {"GATEWAY_ADMIN_URL", "GATEWAY_TEACHER_KEY"}
_SERVICE = re.compile(r"GATEWAY_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)")
_SERVICE_URL = re.compile(r"(?:tcp|udp|sctp)://.*")
"""What Kubernetes, as Docker's links did, tells a container of other services: variables, and what GATEWAY_PORT is."""
_REASONS = {"missing": "is required: give --{flag}, {variable}, or {name} in a --config file"}
"""Where pydantic's own words do not say what to do."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and of each where it comes from."""

    settings: Settings
    sources: Mapping[str, str]
    """A flag, a variable, a file, a key in one, or `DEFAULT`; by the setting's name."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What one place says."""

    value: object
    source: str


def load_settings(**flags: object) -> Settings:
    """The settings from the given flags, the environment and files; see `load`."""
    return load(flags).settings


def load(flags: Mapping[str, object], environment: Mapping[str, str] | None = None) -> Loaded:
    """The settings, and where each comes from; of flags ``None`` counts as not given, and an empty key as none.

    Raises:
        ConfigError: a setting is missing, ill or unknown; the line says where that stands.
    """
    by_flag = {name: _Said(value, flag_of(name)) for name, value in flags.items() if value is not None}
    _refuse_unknown(by_flag, flag_of)
    by_variable = _variables(os.environ if environment is None else environment)
    config = _over(by_variable, by_flag).get("config")
    by_file = _file(config) if config else {}
    told = _over(by_file, by_variable, by_flag)
    keys = {name: _key(told[f"{name}_file"]) for name in KEYS if f"{name}_file" in told}
    said = {name: one for name, one in _over(by_file, keys, by_variable, by_flag).items() if name not in FILES}
    return Loaded(_made(said), {name: said[name].source if name in said else DEFAULT for name in Settings.model_fields})


def flag_of(name: str) -> str:
    """The flag of a setting."""
    return f"--{name.replace('_', '-')}"


def variable_of(name: str) -> str:
    """The variable of a setting."""
    return _PREFIX + name.upper()


def _over(*layers: Mapping[str, _Said]) -> dict[str, _Said]:
    """Each laid over those before it. An empty key is none, nor is a file without a name: such cover nothing."""
    over: dict[str, _Said] = {}
    for layer in layers:
        over |= {name: one for name, one in layer.items() if one.value != "" or not (name in KEYS or name in FILES)}
    return over


def _variables(environment: Mapping[str, str]) -> dict[str, _Said]:
    said = {}
    for variable, value in environment.items():
        if not variable.startswith(_PREFIX) or variable in _OF_OTHER_COMMANDS:
            continue
        name = variable.removeprefix(_PREFIX).lower()
        if _SERVICE.fullmatch(variable) or (variable.endswith("_PORT") and _SERVICE_URL.fullmatch(value)):
            raise ConfigError(
                f"{variable}: is no setting, but what a container is told of a Service that is named like `gateway`: "
                "have enableServiceLinks: false in its pod, or name the Service otherwise"
            )
        if variable != variable_of(name) or not (name in Settings.model_fields or name in FILES):
            raise ConfigError(f"{variable}: there is no such setting{_nearest(name, variable_of)}")
        said[name] = _Said(value, variable)
    return said


def _file(config: _Said) -> dict[str, _Said]:
    path = Path(str(config.value))
    try:
        read = read_config(path)
    except ConfigError as error:
        raise ConfigError(f"{config.source} {error}") from None
    said = {name: _Said(value, f"{path}:{name}") for name, value in read.items()}
    _refuse_unknown(said, lambda name: name, at=f"{path}:", but="config")
    return said


def _key(file: _Said) -> _Said:
    try:
        return _Said(read_key(Path(str(file.value))), f"{file.source} {file.value}")
    except ConfigError as error:
        raise ConfigError(f"{file.source} {error}") from None


def _refuse_unknown(said: Mapping[str, _Said], spelt: Callable[[str], str], *, at: str = "", but: str = "") -> None:
    for name in said:
        if name == but or not (name in Settings.model_fields or name in FILES):
            raise ConfigError(f"{at}{spelt(name)}: there is no such setting{_nearest(name, spelt)}")


def _nearest(unknown: str, spelt: Callable[[str], str]) -> str:
    near = get_close_matches(unknown.lower().replace("-", "_"), [*Settings.model_fields, *FILES], n=1)
    return f"; is {spelt(near[0])} meant?" if near else "; `gateway serve --help` lists them"


def _made(said: Mapping[str, _Said]) -> Settings:
    values: dict[str, Any] = {name: one.value for name, one in said.items()}
    try:
        return Settings(**values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = first["msg"].removeprefix("Value error, ")
        name = str(first["loc"][0] if first["loc"] else first["ctx"]["setting"])
        if ready := _REASONS.get(first["type"]):
            reason = ready.format(flag=name.replace("_", "-"), variable=variable_of(name), name=name)
        raise ConfigError(f"{said[name].source if name in said else flag_of(name)}: {reason}") from None
