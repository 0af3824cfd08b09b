"""How long the event loop stands still while prompts are rendered elsewhere: ``python -m bench.loop_lag``.

128k tokens of Qwen3's are tokenized or rendered on another thread, or in another process, beside a loop that wakes
every millisecond: as one text, or as a history of hundreds of messages. A lag counts no further than the CPU time
that this process spent meanwhile, so that the neighbours on a busy machine count for little. Prints the first lag, the
least and the middle one of the later rounds, and how long a round took. See docs/adr/0002.
"""

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from bench.bridging import WORDS, load

TOKENS = 128_000
MESSAGES = 401
_AWAKE_S = 0.001
_HEAD_START_S = 0.02

_child: Any = None


def after_a_while(work: Callable[[], object]) -> None:
    """Begin when the loop ticks: a thread that takes the interpreter's lock at once would go unseen."""
    time.sleep(_HEAD_START_S)
    work()


def set_up_child(folder: Path | None) -> None:
    """What a process of the pool renders with."""
    global _child  # noqa: PLW0603  # that is how a pool's processes are told
    _child = load(folder)


def render_in_child(messages: list[dict[str, object]]) -> list[int]:
    """A render there, the ids of which come back."""
    return list(_child.renderer.render_ids(messages, add_generation_prompt=True))


async def beside(work: Callable[[], object], pool: Executor) -> tuple[float, float]:
    """The longest lag of the loop while `work` is done, and how long that took, both in ms."""
    worst_s, began = 0.0, time.perf_counter()
    running = asyncio.get_running_loop().run_in_executor(pool, work)
    while not running.done():
        woken, spent = time.perf_counter(), time.process_time()
        await asyncio.sleep(_AWAKE_S)
        late_s = time.perf_counter() - woken - _AWAKE_S
        worst_s = max(worst_s, min(late_s, time.process_time() - spent))
    await running
    return worst_s * 1e3, (time.perf_counter() - began) * 1e3


def works(translator: Any, text: str) -> Mapping[str, Callable[[], object]]:
    """The ways to tokenize a text, and to render it as one message or as many."""
    tokenizer, renderer = translator.tokenizer, translator.renderer
    backend, part = tokenizer.backend_tokenizer, len(text) // MESSAGES
    one: list[dict[str, object]] = [{"role": "user", "content": text}]
    many = history(text, part)
    plain = {"add_special_tokens": False}
    opened = {"add_generation_prompt": True}
    return {
        "nothing": lambda: time.sleep(0.2),
        "tokenizers.encode": lambda: backend.encode(text, **plain).ids,
        "tokenizers.encode_batch_fast": lambda: backend.encode_batch_fast([text], **plain)[0].ids,
        "transformers.encode": lambda: tokenizer.encode(text, **plain),
        "template, one message": lambda: tokenizer.apply_chat_template(one, **opened),
        "template, many": lambda: tokenizer.apply_chat_template(many, **opened),
        "renderers, one message": lambda: renderer.render_ids(one, **opened),
        "renderers, many": lambda: renderer.render_ids(many, **opened),
    }


def history(text: str, part: int) -> list[dict[str, object]]:
    """The text as what users and assistants said in turn, a user last."""
    said = [text[nth * part : (nth + 1) * part] for nth in range(MESSAGES)]
    return [{"role": ("user", "assistant")[nth % 2], "content": words} for nth, words in enumerate(said)]


def report(name: str, rounds: int, work: Callable[[], object], pool: Executor) -> None:
    """Measure and print one of them."""
    measured = [asyncio.run(beside(work, pool)) for _ in range(rounds)]
    lags, took = [lag for lag, _ in measured], min(took for _, took in measured)
    later = lags[1:]
    print(f"{name}: lag_ms first={lags[0]:.1f} least={min(later):.1f} middle={median(later):.1f} took_ms={took:.0f}")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokenizer", type=Path, help="its folder; without it Qwen3's, made on first use")
    parser.add_argument("--thawed", action="store_true", help="let the collector look at what was there at the start")
    options = parser.parse_args()
    translator: Any = load(options.tokenizer)
    numbered = " ".join(f"{nth} {WORDS}" for nth in range(TOKENS // 20))
    text = translator.tokenizer.decode(translator.tokenizer.encode(numbered, add_special_tokens=False)[:TOKENS])
    if not options.thawed:
        gc.collect()
        gc.freeze()
    with ThreadPoolExecutor(1) as thread:
        for name, work in works(translator, text).items():
            report(name, options.rounds, partial(after_a_while, work), thread)
    spawned = get_context("spawn")
    with ProcessPoolExecutor(1, spawned, set_up_child, (options.tokenizer,)) as process:
        process.submit(render_in_child, [{"role": "user", "content": "?"}]).result()
        whole: list[dict[str, object]] = [{"role": "user", "content": text}]
        report("renderers in a process, one message", options.rounds, partial(render_in_child, whole), process)
    return 0


if __name__ == "__main__":
    sys.exit(main())
