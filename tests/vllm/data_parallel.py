"""A real vLLM with two data-parallel ranks behind a gateway: ``python -m tests.vllm.data_parallel CACHE``.

It takes three minutes and 8 GB; CACHE is the folder that ``environment.sh vllm`` names. Prints how many ranks the
gateway found, and, of the turns of one session, the prefix-cache queries and hits of each rank as the engine itself
counts them; exit code 1 unless one rank has all of them.
"""

import json
import re
import sys
import tempfile
from pathlib import Path
from urllib.request import urlopen

from openai import OpenAI

from tests.tokenizers.folders import folder_of
from tests.vllm import conftest
from tests.vllm.conftest import answers, gateway_before, started_vllm, wait_for
from tests.vllm.conversation import MODEL

_FLAGS = ("--data-parallel-size", "2", "--api-server-count", "1")
_START_TIMEOUT_S = 900.0
_TURNS = 8
_METRIC = re.compile(r'^vllm:(prefix_cache_(?:queries|hits))_total\{.*engine="(\d+)".*\} (\S+)$', re.MULTILINE)


def main(cache: Path) -> int:
    """Start all, and let one session take its turns."""
    conftest.START_TIMEOUT_S = _START_TIMEOUT_S
    with tempfile.TemporaryDirectory() as name:
        engine_logs, gateway_logs = Path(name) / "engine", Path(name) / "gateway"
        engine_logs.mkdir()
        gateway_logs.mkdir()
        with started_vllm(cache, engine_logs, *_FLAGS) as (url, process):
            wait_for(lambda: answers(f"{url}/health"), process, engine_logs)
            with gateway_before(url, folder_of("qwen3"), gateway_logs) as gateway:
                with urlopen(f"{gateway.url}/admin/engines", timeout=30) as answer:
                    print(json.dumps(json.load(answer), indent=1))
                before = counted(url)
                turns = taken(f"{gateway.url}/sessions/one/v1")
                with urlopen(f"{gateway.url}/sessions/one/turns", timeout=30) as answer:
                    ranks = [turn["rank"] for turn in json.load(answer)["data"]]
                after = counted(url)
    gained = {key: number - before.get(key, 0.0) for key, number in after.items()}
    print(f"turns={turns} on_ranks={sorted(set(ranks))}")
    for (what, rank), number in sorted(gained.items(), key=lambda item: item[0][::-1]):
        print(f"rank {rank}: {what} {number:.0f}")
    served = {rank for (what, rank), number in gained.items() if what.endswith("hits") and number}
    return int(len(served) != 1 or served != {str(rank) for rank in ranks})


def taken(base_url: str) -> int:
    """The turns of one session; how many."""
    client = OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=300)
    messages: list[dict[str, str]] = [{"role": "user", "content": "Tell me everything about trains. " * 20}]
    for turn in range(_TURNS):
        asked = {"model": MODEL, "messages": messages, "max_tokens": 60, "extra_body": {"ignore_eos": True}}
        said = client.chat.completions.create(**asked).choices[0].message.content
        messages += [{"role": "assistant", "content": said or ""}, {"role": "user", "content": f"And {turn}?"}]
    return _TURNS


def counted(url: str) -> dict[tuple[str, str], float]:
    """What each rank has looked up in its prefix cache, and found there."""
    with urlopen(f"{url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {(what, rank): float(number) for what, rank, number in _METRIC.findall(text)}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
