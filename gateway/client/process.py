"""Gateways and simulated engines as processes of one's own, which end with the block that they serve."""

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from os import PathLike
from typing import IO, Any

from gateway.client.client import GatewayClient
from gateway.client.errors import GatewayProcessError

START_S, END_S = 120.0, 60.0
_SECRETS = ("admin_key", "agent_key", "engine_key")
"""Settings that go by the environment: everybody may read a process's flags."""
_FILES = ("config", "admin_key_file", "agent_key_file")
"""Settings that name files in which keys may stand."""
_LAST_LINES, _LAST_BYTES = 10, 16_384
_PIECE_BYTES = 4096

Log = str | PathLike[str] | IO[Any] | None
"""Where standard error goes: a file by its name, an open one, or one of our own that goes with the process."""


@contextmanager
def launch(
    *,
    log: Log = None,
    environment: Mapping[str, str] | None = None,
    start_timeout_s: float = START_S,
    end_timeout_s: float = END_S,
    **settings: Any,  # what each may hold is for the gateway to say
) -> Iterator[GatewayClient]:
    """A gateway as a process of its own: a client of it, ready, with the keys that it was given.

    `settings` are the flags of ``gateway serve``, as ``model="…", engine=["http://…"]``; ``port`` is a free one unless
    given. It has this process's environment, or `environment`, and so its ``GATEWAY_…`` variables, where no setting
    says otherwise. It ends by itself when this process dies; else at the end of the block: it is asked to, which lets
    turns in flight end, and killed after `end_timeout_s`.

    Raises:
        GatewayProcessError: it does not start within `start_timeout_s`, or did not end well by itself. A block that
            raises is heard first.
    """
    said = {"port": 0} | {name: value for name, value in settings.items() if name not in _SECRETS}
    command = ["serve", *flags(said), "--exit-with-parent"]
    secrets = {_variable(name): _plain(settings[name]) for name in _SECRETS if settings.get(name)}
    given = {**(os.environ if environment is None else environment), **secrets}
    admin_key, agent_key = _keys(settings, given)
    serving = _Process(command, log, given).serving(start_timeout_s, end_timeout_s)
    with serving as url, GatewayClient(url, admin_key, agent_key) as gateway:
        yield gateway


@contextmanager
def simulated_engine(
    *,
    ranks: int = 1,
    log: Log = None,
    start_timeout_s: float = START_S,
    end_timeout_s: float = END_S,
    **knobs: Any,  # what each may hold is for the sim to say
) -> Iterator[str]:
    """A simulated vLLM as a process of its own: its URL. `knobs` are the flags of ``gateway sim``.

    Raises:
        GatewayProcessError: as `launch`.
    """
    said = {"port": 0, "ranks": ranks} | knobs
    command = ["sim", *flags(said, pairs=True), "--exit-with-parent"]
    with _Process(command, log, os.environ).serving(start_timeout_s, end_timeout_s) as url:
        yield url


def _keys(settings: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The admin's key and the agents' that the gateway has, wherever they are said."""
    if not any(settings.get(name) or environment.get(_variable(name)) for name in _FILES):
        return environment.get(_variable("admin_key")), environment.get(_variable("agent_key"))
    from gateway.errors import ConfigError
    from gateway.settings_sources import load  # with what it brings, for those who have files

    said = {name: str(value) if name in _FILES else value for name, value in settings.items() if value is not None}
    try:
        loaded = load(said, environment).settings
    except ConfigError:
        return None, None  # the gateway will say so, and end
    return loaded.admin_key.get_secret_value(), loaded.agent_key.get_secret_value()


def _variable(name: str) -> str:
    return f"GATEWAY_{name.upper()}"


def _plain(key: Any) -> str:
    """A key as text; pydantic's kind of secret shows stars otherwise."""
    return str(key.get_secret_value() if hasattr(key, "get_secret_value") else key)


def flags(settings: Mapping[str, object], *, pairs: bool = False) -> list[str]:
    """Settings as flags: `True` is the flag alone, `False` its negation, `None` none, a dictionary its JSON.

    A list is one for each item, or with `pairs` one for all.
    """
    found: list[str] = []
    for name, value in settings.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            found.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, dict):
            found += [flag, json.dumps(value)]
        elif isinstance(value, list | tuple):
            found += [flag, *map(str, value)] if pairs else [part for item in value for part in (flag, str(item))]
        elif value is not None:
            found += [flag, str(value)]
    return found


class _Process:
    """A process of ours. Its standard error goes to a file, which never fills up as a pipe would."""

    def __init__(self, command: Sequence[str], log: Log, environment: Mapping[str, str]) -> None:
        self._name = f"gateway {command[0]}"
        self._log = log
        self._command = [sys.executable, "-m", "gateway", *command]
        self._environment = environment

    @contextmanager
    def serving(self, start_timeout_s: float, end_timeout_s: float) -> Iterator[str]:
        """Its URL, while it runs. It is in a group of its own: an interrupt from the terminal is for us to pass on."""
        with ExitStack() as stack:
            errors = self._open(stack)
            child = subprocess.Popen(  # noqa: S603  # our own program
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(self._environment),
                process_group=0,
            )
            assert child.stdout is not None
            stack.enter_context(child.stdout)
            stack.callback(child.wait)  # killed, in the end
            stack.callback(child.kill)
            url = self._ready(child, child.stdout, errors, start_timeout_s)
            try:
                yield url
            except BaseException as failure:
                if (fault := self._end(child, errors, end_timeout_s)) is not None:
                    failure.add_note(str(fault))
                raise
            if (fault := self._end(child, errors, end_timeout_s)) is not None:
                raise fault

    def _open(self, stack: ExitStack) -> IO[Any]:
        if self._log is None:
            return stack.enter_context(tempfile.TemporaryFile())
        if isinstance(self._log, str | PathLike):
            return stack.enter_context(open(self._log, "ab+"))  # noqa: PTH123  # a path may be of any kind
        return self._log

    def _ready(self, child: subprocess.Popen[bytes], stdout: IO[bytes], errors: IO[Any], timeout_s: float) -> str:
        line = _first_line(stdout, timeout_s)
        if line is None:
            raise self._fault(f"did not start within {timeout_s:g} s", errors, None)
        if not line:
            raise self._fault("did not start", errors, child.wait())
        try:
            return str(json.loads(line)["url"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._fault(f"says {line[:200]!r} in place of its ready line", errors, None) from error

    def _end(self, child: subprocess.Popen[bytes], errors: IO[Any], timeout_s: float) -> GatewayProcessError | None:
        ended = child.poll()
        if ended is not None:
            return self._fault("ended before its block did", errors, ended)
        child.terminate()
        try:
            code = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return self._fault(f"did not end within {timeout_s:g} s, and was killed", errors, None)
        return self._fault("did not end well", errors, code) if code else None

    def _fault(self, what: str, errors: IO[Any], code: int | None) -> GatewayProcessError:
        why = "" if code is None else f" (exit code {code})" if code >= 0 else f" (ended by signal {-code})"
        return GatewayProcessError(f"{self._name} {what}{why}", exit_code=code, last_lines=_last_lines(errors))


def _first_line(stdout: IO[bytes], timeout_s: float) -> bytes | None:
    """The first line, or what there was before the end; ``None`` if neither comes in time."""
    line, until_s = b"", time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while b"\n" not in line:
            if not selector.select(max(0.0, until_s - time.monotonic())):
                return None
            piece = os.read(stdout.fileno(), _PIECE_BYTES)
            if not piece:
                break
            line += piece
    return line


def _last_lines(errors: IO[Any]) -> list[str]:
    """The end of what was written, where it can be read."""
    try:
        descriptor = errors.fileno()
        size = os.fstat(descriptor).st_size
        told = os.pread(descriptor, _LAST_BYTES, max(0, size - _LAST_BYTES))
    except (OSError, ValueError):  # a terminal, a pipe, or no file at all
        return []
    return told.decode(errors="replace").splitlines()[-_LAST_LINES:]
