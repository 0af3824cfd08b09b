"""The file that ``--config`` names, and those that hold a key each."""

import tomllib
from pathlib import Path

import yaml

from gateway.errors import ConfigError

_MOST_BYTES = 1 << 20


def read_config(path: Path) -> dict[str, object]:
    """What a file of settings says, by name.

    Raises:
        ConfigError: it cannot be read, or is no YAML or TOML whose names are texts, each said once.
    """
    kind = path.suffix.lower()
    if kind not in (".yaml", ".yml", ".toml"):
        raise ConfigError(f"{path}: which language is it in? Give it a name that ends in .yaml, .yml or .toml")
    text = _text(path)
    language = kind.removeprefix(".").replace("yml", "yaml").upper()
    try:
        return tomllib.loads(text) if kind == ".toml" else _read_yaml(text, path)
    except RecursionError:
        raise ConfigError(f"{path}: no {language} of settings: it is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: no TOML: {error}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"{path}: no YAML: {where}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: no YAML: {' '.join(str(error).split())}") from None
    except ValueError as error:  # a date that is none, a number without end
        raise ConfigError(f"{path}: no {language}: {error}") from None


def _read_yaml(text: str, path: Path) -> dict[str, object]:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(f"{path}: must be lines like `port: 8080`, each with the name of a setting")
        read: dict[str, object] = {}
        for key, value in node.value:
            name = loader.construct_object(key, deep=True)
            where = f"line {key.start_mark.line + 1}, column {key.start_mark.column + 1}"
            if not isinstance(name, str):
                raise ConfigError(f"{path}: {where}: {name!r} is no name of a setting")
            if name in read:
                raise ConfigError(f"{path}: {where}: {name} is said twice")
            read[name] = loader.construct_object(value, deep=True)
        return read
    finally:
        loader.dispose()


def read_key(path: Path) -> str:
    """The key that a file holds, without the line break at its end.

    Raises:
        ConfigError: it cannot be read, or holds no key, or more than one line.
    """
    key = _text(path).rstrip("\r\n")
    if not key:
        raise ConfigError(f"{path}: holds no key")
    if not key.isprintable():
        raise ConfigError(f"{path}: holds more than a key, which is one line of printable characters")
    return key


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ConfigError(f"{path}: is over {_MOST_BYTES} bytes, and so not what was meant")
        return content.decode("utf-8-sig")  # some editors mark it so
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is no UTF-8: byte {error.start}") from None
