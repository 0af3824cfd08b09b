"""One real vLLM, a recorder and a gateway, in a row: agent → gateway → recorder → vLLM."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from tokenizers import Tokenizer

from tests.recorder import GENERATE, Exchange, Recorder, recording
from tests.vllm.conversation import MODEL

HERE = Path(__file__).parent
VLLM, WEIGHTS = "vllm-0.32.0", "tiny-qwen3-0.32.0"
"""What environment.sh makes in its cache folder."""
START_TIMEOUT_S, WARM_UP_TIMEOUT_S, STOP_TIMEOUT_S = 300.0, 120.0, 30.0

FLAGS = (
    f"--served-model-name {MODEL} --dtype float32 --max-model-len 4096 --enforce-eager --host 127.0.0.1"
    " --max-num-seqs 64 --max-num-batched-tokens 4096 --max-logprobs 20"
    " --enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3"
    " --enable-prompt-tokens-details --enable-server-load-tracking --enable-scale-out"
    " --logits-processors scripted_output:ScriptedOutput"
).split()
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


@pytest.fixture(scope="session")
def cache() -> Path:
    """The folder with vLLM and the tiny model; made when they are not there yet."""
    made = subprocess.run([HERE / "environment.sh", "vllm"], stdout=subprocess.PIPE, text=True, check=True)
    return Path(made.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def tokenizer_dir(tokenizer_folder: str) -> Path:
    """The tokenizer's files, as a model ships them."""
    return Path(tokenizer_folder)


@pytest.fixture(scope="session")
def tokenizer(tokenizer_dir: Path) -> Tokenizer:
    """The real Qwen3 tokenizer."""
    return Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))


@pytest.fixture(scope="session")
def vllm(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a vLLM as it comes, warm: its logprobs are raw."""
    with serving(cache, tmp_path_factory.mktemp("vllm")) as url:
        yield url


@contextmanager
def serving(cache: Path, folder: Path, *flags: str) -> Iterator[str]:
    """Run a vLLM with more `flags`, and warm it up; yields its address."""
    with started_vllm(cache, folder, *flags) as (url, process):
        wait_for(lambda: answers(f"{url}/health"), process, folder)
        warm_up(url)
        yield url


@contextmanager
def started_vllm(cache: Path, folder: Path, *flags: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a vLLM with more `flags`; yields where it will be, and the process that leads its group."""
    shutil.copy(HERE / "scripted_output.py", folder)
    port = free_port()
    command = [cache / VLLM / "bin" / "vllm", "serve", cache / WEIGHTS, *FLAGS, *flags, "--port", port]
    with started(command, folder, ENVIRONMENT | {"PYTHONPATH": str(folder)}) as process:
        yield f"http://127.0.0.1:{port}", process


@pytest.fixture(scope="session")
def recorder(vllm: str) -> Iterator[Recorder]:
    """What stands between the gateway and vLLM and writes down what passes."""
    with recording(vllm) as recorder:
        yield recorder


@pytest.fixture
def exchanges(recorder: Recorder) -> list[Exchange]:
    """What the engine was asked and answered since this test began."""
    recorder.exchanges.clear()
    return recorder.exchanges


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway in a process of its own."""

    url: str
    pid: int

    def descriptors(self) -> int:
        """How many files and sockets it has open."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


@pytest.fixture
def gateway_url(gateway: Gateway) -> str:
    """Address of the gateway."""
    return gateway.url


@pytest.fixture(scope="session")
def gateway(recorder: Recorder, tokenizer_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose only engine is the recorded vLLM."""
    with gateway_before(recorder.url, tokenizer_dir, tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


@contextmanager
def gateway_before(engine: str, tokenizer_dir: Path, logs: Path, *flags: str) -> Iterator[Gateway]:
    """Run a gateway before one engine, with more `flags`."""
    command = [Path(sys.executable).with_name("gateway"), "serve", "--model", tokenizer_dir]
    options = ["--model-name", "Qwen/Qwen3-8B", "--engine", engine, "--port", "0", *flags]
    with running([*command, *options], logs, {}) as healthy:
        url = healthy(lambda: ready_url(logs / "stdout"))
        event = json.loads((logs / "stdout").read_text().splitlines()[0])
        yield Gateway(url, event["pid"])


@contextmanager
def running(
    command: Sequence[object], logs: Path, environment: Mapping[str, str]
) -> Iterator[Callable[[Callable[[], str | None]], str]]:
    """Run a server and stop it, with all it started, at the end; its output goes to files in `logs`.

    Yields a function that waits until its argument gives a string; it raises, showing the end of the log,
    when the server dies first or needs longer than ``START_TIMEOUT_S``.
    """
    with started(command, logs, environment) as process:
        yield lambda probe: wait_for(probe, process, logs)


@contextmanager
def started(command: Sequence[object], logs: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server, and stop it with all that it started at the end; its output goes to files in `logs`."""
    with (logs / "stdout").open("wb") as out, (logs / "stderr").open("wb") as err:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=out,
            stderr=err,
            env=os.environ | environment,
            start_new_session=True,  # a process group of its own, which can be stopped as a whole
        )
    try:
        yield process
    finally:
        stop(process)


def wait_for(probe: Callable[[], str | None], process: subprocess.Popen[bytes], logs: Path) -> str:
    """The first string `probe` gives while `process` lives.

    Raises:
        RuntimeError: the process ended, or ``START_TIMEOUT_S`` passed.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        if found := probe():
            return found
        time.sleep(0.1)
    tail = b"".join((logs / name).read_bytes()[-3000:] for name in ("stdout", "stderr"))
    raise RuntimeError(f"{process.args!r} did not start (exit code {process.poll()}):\n{tail.decode(errors='replace')}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the group that `process` leads: politely first, then whatever is left."""
    with suppress(ProcessLookupError):
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> str | None:
    """`url` itself once it answers with success; ``None`` before."""
    with suppress(URLError, OSError), urlopen(url, timeout=5):
        return url
    return None


def ready_url(stdout: Path) -> str | None:
    """The address in the gateway's ready line; ``None`` while there is none."""
    for line in stdout.read_text().splitlines(keepends=True):
        if line.endswith("\n") and (event := json.loads(line))["event"] == "ready":
            return str(event["url"])
    return None


def warm_up(url: str) -> None:
    """Make the engine compile what its first request with logprobs needs; it can take half a minute."""
    body = {"token_ids": [9707, 11], "sampling_params": {"max_tokens": 4, "logprobs": 1, "ignore_eos": True}}
    request = Request(url + GENERATE, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=WARM_UP_TIMEOUT_S) as answer:
        answer.read()
