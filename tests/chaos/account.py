"""What was recorded of answers that were cut, held against what the engines said and would have said uncut."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from gateway.core.turn import Turn
from gateway.core.types import float32s
from gateway.sim import logprob
from gateway.sim.policy import Policy
from gateway.sim.server import Entry

Said = Mapping[tuple[str, tuple[int, ...]], Sequence[Entry]]
"""The calls that engines were asked, by the engine's address and the prompt."""


def said_by(journals: Mapping[str, Iterable[Entry]]) -> Said:
    """The calls of all engines' journals."""
    said: dict[tuple[str, tuple[int, ...]], list[Entry]] = defaultdict(list)
    for url, entries in journals.items():
        for entry in entries:
            assert isinstance(entry.token_ids, list)
            said[url, tuple(entry.token_ids)].append(entry)
    return said


def faults_of(turn: Turn, said: Said, policy: Policy) -> list[str]:
    """What is untrue of a complete turn: where it was cut, what was sampled before and after, and what it is in all."""
    prompt, ids, cuts = tuple(turn.prompt_ids()), list(turn.completion.ids), turn.completion.cuts
    marks = [0, *(cut.position for cut in cuts), len(ids)]
    engines = [*(cut.from_engine for cut in cuts), turn.origin.engine]
    faults = []
    for cut, (here, there) in zip(cuts, pairwise(engines), strict=True):
        if (cut.from_engine, cut.to_engine) != (here, there):
            faults.append(
                f"{turn.id}: cut at {cut.position} from {cut.from_engine} to {cut.to_engine}, went on {there}"
            )
    for engine, (start, end) in zip(engines, pairwise(marks), strict=True):
        calls = said.get((engine, (*prompt, *ids[:start])), ())
        if not any(call.emitted[: end - start] == ids[start:end] for call in calls):
            faults.append(f"{turn.id}: {engine} did not say what it holds from {start} to {end}, cut at {marks[1:-1]}")
    if not all(start <= end for start, end in pairwise(marks)):
        faults.append(f"{turn.id}: cut at {marks[1:-1]} of {len(ids)}")
    if ids != policy.say(prompt, 0):
        faults.append(f"{turn.id}: it is not the answer that one engine would have given")
    if list(turn.completion.logprobs) != list(float32s([logprob(at, one) for at, one in enumerate(ids, len(prompt))])):
        faults.append(f"{turn.id}: other logprobs than the engines'")
    return faults
