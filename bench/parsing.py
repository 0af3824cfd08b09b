"""What it costs to read an answer as its ids come: ``python -m bench.parsing``.

Prints CPU time a token for answers of 100 to 30,000 tokens, fed one id, eight or all at a time: plain text, one giant
call, one giant thought, and a call in a thought that stays open, which is held to the end; and a call whose markers
are found in the text. Times are relative to one ``tokenizer.decode`` of the same ids in the same run, and the best of
several rounds. Exit code 1 when a token costs more than twice as much at 30,000 as it does at 1,000.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.render.formats import FORMATS
from gateway.render.markers import Markers
from gateway.render.parsed import Parsed
from gateway.render.protocol import Tokenizer
from gateway.render.registry import load_tokenizer
from gateway.render.stream_parser import TokenParser

TOKENS = (100, 1_000, 10_000, 30_000)
FEEDS = (1, 8, 0)
"""Ids at a time; 0 for all."""
WORDS = "the file says that nothing was found, naïve or not,\nin the folder where it was looked for: 漢字 and 👩‍👩‍👧. "
CALL = '<tool_call>\n{"name": "write", "arguments": {"text": "'
CASES = {
    "text": ("", ""),
    "call": (CALL, '"}}\n</tool_call>'),
    "thought": ("<think>\n", "\n</think>\n\nso"),
    "call_in_open_thought": ("<think>\nhm " + CALL, '"}}\n</tool_call>'),
}


def answer(tokenizer: Tokenizer, case: str, tokens: int) -> list[int]:
    """So many ids, its markers included."""
    start, end = CASES[case]
    words = WORDS if case in ("text", "thought") else WORDS.replace("\n", " ")
    head, tail = (tokenizer.encode(text, add_special_tokens=False) for text in (start, end))
    body = tokenizer.encode(words, add_special_tokens=False)
    room = tokens - len(head) - len(tail)
    whole = body * (room // len(body))
    filler = tokenizer.encode(" a", add_special_tokens=False)
    return head + whole + filler * ((room - len(whole)) // len(filler)) + tail


def read(markers: Markers, ids: Sequence[int], size: int) -> Parsed:
    """One answer, `size` ids at a time."""
    parser = TokenParser(markers)
    step = size or len(ids)
    for at in range(0, len(ids), step):
        parser.feed(ids[at : at + step])
    return parser.finish()


def best_us(rounds: int, work: Callable[[], object]) -> float:
    """CPU time of the fastest call."""
    times = []
    for _ in range(rounds):
        started_ns = time.process_time_ns()
        work()
        times.append(time.process_time_ns() - started_ns)
    return min(times) / 1e3


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds, worst = parser.parse_args().rounds, 0.0
    tokenizer = load_tokenizer(str(FOLDER), MODEL_NAME)
    markers = Markers(FORMATS["qwen3"], tokenizer, tokenizer.encode("<|im_end|>"))
    for case in CASES:
        for size in FEEDS:
            costs: dict[int, float] = {}
            ratios = []
            for tokens in TOKENS:
                ids = answer(tokenizer, case, tokens)
                parsed = read(markers, ids, size)
                assert bool(parsed.tool_calls) is ("call" in case)
                assert not parsed.flags
                costs[tokens] = best_us(rounds, partial(read, markers, ids, size)) / len(ids)
                ratios.append(costs[tokens] * len(ids) / best_us(rounds, partial(tokenizer.decode, ids)))
            growth = costs[30_000] / costs[1_000]
            worst = max(worst, growth)
            us = " ".join(f"{tokens}={cost:.2f}" for tokens, cost in costs.items())
            to_decode = " ".join(f"{ratio:.1f}" for ratio in ratios)
            print(f"{case}: feed={size or 'all'} us_per_token: {us} to_decode: {to_decode} growth={growth:.2f}")
    return int(worst > 2)


if __name__ == "__main__":
    sys.exit(main())
