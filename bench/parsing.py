"""What it costs to read an answer as its ids come: ``python -m bench.parsing``.

Prints CPU time a token for answers of 100 to 30,000 tokens, fed one id, eight or all at a time, from the first id to
the answer that a client is given: plain text, the same with a stop string that never comes, one giant call, one giant
thought, and a call in a thought that stays open, which is held to the end. Times are also relative to one
``tokenizer.decode`` of the same ids in the same run, and the best of several rounds. Exit code 1 when a token of
30,000 costs more than `MOST_GROWTH` times what it does in the cheaper of the shorter answers.

No part of CI: it takes most of a minute, and on a machine that is shared the same code grows by 1.0 or by 1.4. What
can be counted is counted in `make check`: how often an id is decoded, however long its answer is.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from gateway.core.types import Sampling, TurnRequest
from gateway.render.demo import FOLDER, MODEL_NAME, DemoRenderer
from gateway.render.formats import FORMATS
from gateway.render.markers import Markers
from gateway.render.protocol import Tokenizer
from gateway.render.reading import Ending, Reading
from gateway.render.registry import load_tokenizer
from gateway.render.translator import Translator

TOKENS = (100, 1_000, 30_000)
MOST_GROWTH = 1.5
FEEDS = (1, 8, 0)
"""Ids at a time; 0 for all."""
WORDS = "the file says that nothing was found, naïve or not,\nin the folder where it was looked for: 漢字 and 👩‍👩‍👧. "
CALL = '<tool_call>\n{"name": "write", "arguments": {"text": "'
CASES = {
    "text": ("", ""),
    "text_and_stop": ("", ""),
    "call": (CALL, '"}}\n</tool_call>'),
    "thought": ("<think>\n", "\n</think>\n\nso"),
    "call_in_open_thought": ("<think>\nhm " + CALL, '"}}\n</tool_call>'),
}


def answer(tokenizer: Tokenizer, case: str, tokens: int) -> list[int]:
    """So many ids, its markers included."""
    start, end = CASES[case]
    words = WORDS if "call" not in case else WORDS.replace("\n", " ")
    head, tail = (tokenizer.encode(text, add_special_tokens=False) for text in (start, end))
    body = tokenizer.encode(words, add_special_tokens=False)
    room = tokens - len(head) - len(tail)
    whole = body * (room // len(body))
    filler = tokenizer.encode(" a", add_special_tokens=False)
    return head + whole + filler * ((room - len(whole)) // len(filler)) + tail


def read(translator: Translator, case: str, ids: Sequence[int], size: int) -> Ending:
    """One answer, `size` ids at a time."""
    sampling = Sampling(stop=("\n\nObservation:",) if "stop" in case else ())
    reading = Reading(translator, [], TurnRequest((), sampling=sampling), lambda: "call_0")
    step = size or len(ids)
    for at in range(0, len(ids), step):
        reading.feed(ids[at : at + step])
    return reading.finish()


def best_us(rounds: int, work: Callable[[], object]) -> float:
    """CPU time of the fastest call."""
    times = []
    for _ in range(rounds):
        started_ns = time.process_time_ns()
        work()
        times.append(time.process_time_ns() - started_ns)
    return min(times) / 1e3


def repeat(times: int, work: Callable[[], object]) -> None:
    """Do it so many times."""
    for _ in range(times):
        work()


def growth(translator: Translator, case: str, size: int, rounds: int) -> float:
    """How much more a token costs in the longest answer; prints what it costs in each."""
    decode = translator.tokenizer.decode
    costs_us: dict[int, float] = {}
    ratios = []
    for tokens in TOKENS:
        ids = answer(translator.tokenizer, case, tokens)
        read_one = partial(read, translator, case, ids, size)
        ending = read_one()
        assert bool(ending.answer.message.tool_calls) is ("call" in case)
        assert ending.kept is None
        # A short answer is over too soon to be measured by itself.
        times = max(1, 1_000 // tokens)
        spent_us = best_us(rounds, partial(repeat, times, read_one)) / times
        costs_us[tokens] = spent_us / len(ids)
        ratios.append(spent_us / best_us(rounds, partial(decode, ids)))
    grown = costs_us[TOKENS[-1]] / min(costs_us.values())
    us = " ".join(f"{tokens}={cost:.2f}" for tokens, cost in costs_us.items())
    to_decode = " ".join(f"{ratio:.1f}" for ratio in ratios)
    print(f"{case}: feed={size or 'all'} us_per_token: {us} to_decode: {to_decode} growth={grown:.2f}")
    return grown


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    tokenizer = load_tokenizer(str(FOLDER), MODEL_NAME)
    markers = Markers(FORMATS["qwen3"], tokenizer, tokenizer.encode("<|im_end|>"))
    # The demo's tokenizer comes along; Qwen3's markers are the same, and calls in its thoughts are held the longest.
    translator = Translator(DemoRenderer(tokenizer, {}), tokenizer, markers=markers)
    worst = max(growth(translator, case, size, rounds) for case in CASES for size in FEEDS)
    return int(worst > MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
