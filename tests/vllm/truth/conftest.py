"""A second vLLM, whose logprobs are those of the distribution it samples from, and the reference that both are held to."""

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.vllm.conftest import VLLM, WEIGHTS, gateway_before, serving

Row = dict[str, Any]
Reference = Callable[[Sequence[Row]], list[list[list[float]]]]
"""The logprobs of each turn of each row."""


@pytest.fixture(scope="session")
def processed_vllm(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a vLLM that returns processed logprobs, warm."""
    with serving(cache, tmp_path_factory.mktemp("processed"), "--logprobs-mode", "processed_logprobs") as url:
        yield url


@pytest.fixture(scope="session")
def processed_url(processed_vllm: str, tokenizer_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a gateway before it that takes exact logprobs only."""
    flags = ("--logprobs", "require-exact")
    with gateway_before(processed_vllm, tokenizer_dir, tmp_path_factory.mktemp("exact"), *flags) as gateway:
        yield gateway.url


@pytest.fixture(scope="session")
def reference(cache: Path) -> Reference:
    """Hugging Face's own Qwen3, in float32, on the weights that vLLM serves."""

    def score(rows: Sequence[Row]) -> list[list[list[float]]]:
        command = [cache / VLLM / "bin" / "python", Path(__file__).with_name("reference.py"), cache / WEIGHTS]
        told = subprocess.run(command, input=json.dumps(rows), stdout=subprocess.PIPE, text=True, check=True)
        scores: list[list[list[float]]] = json.loads(told.stdout)
        return scores

    return score
