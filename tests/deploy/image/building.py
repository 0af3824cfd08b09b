"""The image, built from the Dockerfile by buildah without a daemon, and unpacked for who runs it."""

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent.parent
HERE = Path(__file__).parent
BASE = "localhost/python-sim:3.13"
DEPENDENCIES = "localhost/rollout-gateway-dependencies"
SYSTEM_CA = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass(frozen=True)
class Image:
    """What was built: `root`, its files, and `config`, as Docker names it."""

    root: Path
    config: dict[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        """The variables that each of its processes has."""
        return dict(item.split("=", 1) for item in self.config["Env"])


@contextmanager
def built(secrets: Path) -> Iterator[Image]:
    """The image of this tree, gone when the block ends; `secrets` is an empty folder for pip's configuration."""
    store = Path(_output(str(HERE / "environment.sh")))
    name = f"localhost/rollout-gateway-test:{os.getpid()}"
    with (store / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = _dependencies(store, secrets)
        try:
            _buildah(store, "bud", *_options(secrets), "--tag", name, str(ROOT))
            config = json.loads(_buildah(store, "inspect", "--type", "image", name))["Docker"]["config"]
            container = _buildah(store, "from", "--pull-never", name)
            yield Image(Path(_buildah(store, "mount", container)), config)
        finally:
            _buildah(store, "rm", "--all")
            _remove(store, kept)


def _dependencies(store: Path, secrets: Path) -> set[str]:
    """Have the Dockerfile's stage of that name, most of a build's work, from a build before if that was of the same
    files; the ids of its images, which are there for the next build, and of the base's.
    """
    files = ("Dockerfile", "pyproject.toml", "requirements-dev.lock")
    tag = sha256(b"".join((ROOT / name).read_bytes() for name in files)).hexdigest()[:12]
    images = _images(store)
    if f"{DEPENDENCIES}:{tag}" not in (name for names in images.values() for name in names):
        _remove(store, {identity for identity, names in images.items() if BASE in names})
    _buildah(store, "bud", *_options(secrets), "--target=dependencies", "--tag", f"{DEPENDENCIES}:{tag}", str(ROOT))
    return set(_images(store))


def _images(store: Path) -> dict[str, list[str]]:
    """The names of each image in the store, those of single steps included, which have none."""
    return {image["id"]: image["names"] or [] for image in json.loads(_buildah(store, "images", "--all", "--json"))}


def _remove(store: Path, kept: set[str]) -> None:
    """Remove all images but some."""
    if others := set(_images(store)) - kept:
        _buildah(store, "rmi", "--force", *others)


def _options(secrets: Path) -> list[str]:
    """As `make image` builds it, but on the base that stands in, and with this machine's way to a package index."""
    configuration, authority = secrets / "pip.conf", SYSTEM_CA
    lines = ["[global]", "cert = /run/secrets/pip_ca"]
    for name, value in re.findall(
        r"^[^.]+\.([a-z-]+)='(.*)'$", _output(sys.executable, "-m", "pip", "config", "list"), re.MULTILINE
    ):
        if name == "cert":
            authority = Path(value)
        elif name in ("index-url", "trusted-host"):
            lines.append(f"{name} = {value}")
    configuration.write_text("\n".join([*lines, ""]))
    configuration.chmod(0o600)
    arguments = {"BASE": BASE, "VERSION": "1.2.3", "REVISION": "abc"}
    return [
        "--isolation=chroot",
        "--pull-never",
        "--layers",
        "--format=docker",  # the other has no HEALTHCHECK
        f"--secret=id=pip_conf,src={configuration}",
        f"--secret=id=pip_ca,src={authority}",
        *[f"--build-arg={name}={value}" for name, value in arguments.items()],
    ]


def _buildah(store: Path, *arguments: str) -> str:
    driver = (store / "driver").read_text().strip()
    options = ["--root", str(store / "storage"), "--runroot", str(store / "run"), "--storage-driver", driver]
    return _output("buildah", *options, *arguments, TMPDIR=str(store / "tmp"))


def _output(*command: str, **environment: str) -> str:
    """What a command prints, its end left out; where it fails, all that it said."""
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **environment})
    assert ran.returncode == 0, f"{command}:\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout.strip()
