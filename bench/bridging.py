"""What it costs to extend a long prompt, beside what the gateway itself does about it: ``python -m bench.bridging``.

Sessions of 1k to 128k tokens, through the real Qwen3 renderer of PrimeIntellect's package, with all reasoning kept.
The next turn has a short, a middling or a long new message. Prints CPU time of the package's bridge; of the same bridge
on a tail of the prompt, its delta put behind the whole (docs/adr/0001); of a copy of the prompt's ids, below which
nothing can be that returns them as a list; of `build_prompt` as a whole and of its arrays alone; of the engine's
request; and of what a bridge saves: the history's text by the chat template, and its render in full. Each is the least
of several rounds, taken in turn. Then what the certified bridge of the chat template costs: the first turn of a shape,
one that relies on it, one that is audited, and one that no bridge could extend, beside the render in full. Fails when
the tail's ids are not those of the whole.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gateway.core.ledger import Ledger, PendingTurn
from gateway.core.prompt import build_prompt
from gateway.core.turn import Turn
from gateway.core.types import (
    Answer,
    Completion,
    FinishReason,
    Message,
    Origin,
    TurnRequest,
    VersionSpan,
    float32s,
    token_ids,
)
from gateway.render.discovery import answer_format
from gateway.render.protocol import MessageDict, MessageDicts
from gateway.render.registry import load_tokenizer, renderers_for
from gateway.render.template import TemplateRenderer
from gateway.render.translator import Translator
from tests.core.sampled import HOW
from tests.tokenizers.folders import folder_of

TOKENS = (1_000, 8_000, 32_000, 128_000)
WORDS = "the file says that nothing was found in the folder where it was looked for, so look in another one. "
DELTAS = {"short": 1, "middling": 8, "long": 30}
"""How often a new message says so."""
MODEL = "Qwen/Qwen3-8B"
_SLOW_ROUNDS = 3
_AUDIT_INTERVAL = 5


@dataclass(frozen=True, slots=True)
class Case:
    """A session, and the turn that is asked for next."""

    translator: Translator
    pending: PendingTurn

    @property
    def parent(self) -> Turn:
        """The last turn."""
        assert self.pending.parent is not None
        return self.pending.parent


def load(folder: Path | None) -> Translator:
    """The real renderer, under the policy with which it bridges every turn; by itself with Qwen3's tokenizer."""
    tokenizer = load_tokenizer(str(folder or folder_of("qwen3")), MODEL)
    return renderers_for("prime", tokenizer, None, retention="all", bridgeless_ok=False)[0].get({})


def session(translator: Translator, tokens: int) -> tuple[Ledger, list[Message]]:
    """A ledger whose last prompt and completion have about so many ids, and its history."""
    ledger, history, length = Ledger(), [Message("system", WORDS)], 0
    said = translator.tokenizer.encode(WORDS * 7, add_special_tokens=False)
    completion_ids = token_ids([*said, translator.stop_ids[0]])
    spans = (VersionSpan("1", 0, len(completion_ids)),)
    logprobs = float32s([-1.0] * len(completion_ids))
    completion = Completion(completion_ids, logprobs, FinishReason.STOP, spans)
    answer = Message("assistant", WORDS * 7)
    while length < tokens:
        history.append(Message("user", WORDS * 8))
        pending = ledger.prepare(TurnRequest(tuple(history)))
        prompt = build_prompt(translator, pending)
        pending.commit(pending.seal(str(length), prompt, completion, Answer(answer), Origin("e", 0), **HOW))
        history.append(answer)
        length = len(prompt.ids) + len(completion_ids)
    return ledger, history


def by_tail(renderer: Any, opener: int, prompt_ids: list[int], sampled: list[int], new: Any) -> list[int] | None:
    """The bridge of what comes from the last `opener` on, spliced behind the whole."""
    cut = len(prompt_ids) - 1
    while prompt_ids[cut] != opener:
        cut -= 1
    tail = prompt_ids[cut:]
    bridged = renderer.bridge_to_next_turn(tail, sampled, new)
    if bridged is None:
        return None
    known, ids = tail + sampled, bridged.token_ids
    return prompt_ids + sampled + ids[len(known) :] if ids[: len(known)] == known else None


def works(case: Case) -> Mapping[str, Callable[[], object]]:
    """What is measured, by name."""
    translator, pending, parent = case.translator, case.pending, case.parent
    renderer: Any = translator.renderer
    tokenizer: Any = translator.tokenizer
    prompt_ids, sampled = parent.prompt_ids().tolist(), parent.completion.ids.tolist()
    new = [{"role": message.role, "content": message.content} for message in pending.extension()]
    whole = [{"role": message.role, "content": message.content} for message in pending.history()]
    ids = renderer.bridge_to_next_turn(prompt_ids, sampled, new).token_ids
    opener = tokenizer.convert_tokens_to_ids("<|im_start|>")
    assert by_tail(renderer, opener, prompt_ids, sampled, new) == ids == build_prompt(translator, pending).ids
    return {
        "bridge": lambda: renderer.bridge_to_next_turn(prompt_ids, sampled, new),
        "tail": lambda: by_tail(renderer, opener, prompt_ids, sampled, new),
        "copy": lambda: [*ids],
        "arrays": lambda: parent.prompt_ids().tolist(),
        "compare": lambda: ids[: len(prompt_ids)] == prompt_ids,
        "build_prompt": lambda: build_prompt(translator, pending),
        "request": lambda: orjson.dumps({"token_ids": ids}),
        "template_text": lambda: tokenizer.apply_chat_template(whole, add_generation_prompt=True, tokenize=False),
        "render": lambda: renderer.render_ids(whole, add_generation_prompt=True),
    }


def least_ms(tasks: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """CPU time of the fastest round of each."""
    least: dict[str, float] = {}
    for nth in range(rounds):
        for name, work in tasks.items():
            if name in ("template_text", "render") and nth >= _SLOW_ROUNDS:
                continue
            started_ns = time.process_time_ns()
            work()
            spent_ms = (time.process_time_ns() - started_ns) / 1e6
            least[name] = min(spent_ms, least.get(name, spent_ms))
    return least


def certified(tokenizer: Any, history: list[Message]) -> dict[str, float]:
    """CPU ms of what the chat template's backend does about one turn more of a session."""
    made = TemplateRenderer(tokenizer, {}, answers=answer_format(tokenizer, None, {}), audit_interval=_AUDIT_INTERVAL)
    told: MessageDicts = [{"role": message.role, "content": message.content} for message in history]
    new: MessageDicts = [{"role": "user", "content": WORDS}]
    prompt_ids = made.render_ids(told[:-1], add_generation_prompt=True)
    sampled = [*made.encode(WORDS * 7), made.get_stop_token_ids()[0]]
    thought: MessageDict = {**told[-1], "reasoning_content": "hm"}

    def bridge() -> None:
        assert made.bridge_to_next_turn(prompt_ids, sampled, new, history=told) is not None

    def no_bridge() -> None:
        assert made.bridge_to_next_turn(prompt_ids, sampled, new, history=[*told[:-1], thought]) is None

    first = least_ms({"proof": bridge}, 1)
    trusted = least_ms({"trust": bridge}, _AUDIT_INTERVAL - 1)
    audited = least_ms({"audit": bridge}, 1)
    rest = {"no_bridge": no_bridge, "render": lambda: made.render_ids([*told, *new], add_generation_prompt=True)}
    return first | trusted | audited | least_ms(rest, _SLOW_ROUNDS)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--tokenizer", type=Path, help="its folder; without it Qwen3's, made on first use")
    options = parser.parse_args()
    translator = load(options.tokenizer)
    for tokens in TOKENS:
        ledger, history = session(translator, tokens)
        figures = " ".join(f"{name}={spent:.2f}" for name, spent in certified(translator.tokenizer, history).items())
        print(f"{tokens // 1000}k certified: ms: {figures}")
        for delta, times in DELTAS.items():
            pending = ledger.prepare(TurnRequest((*history, Message("user", WORDS * times))))
            least = least_ms(works(Case(translator, pending)), options.rounds)
            pays, of_turn = least["bridge"] / least["tail"], least["bridge"] / least["build_prompt"]
            figures = " ".join(f"{name}={spent:.2f}" for name, spent in least.items())
            print(f"{tokens // 1000}k {delta}: ms: {figures} tail_pays={pays:.2f} bridge_of_build={of_turn:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
