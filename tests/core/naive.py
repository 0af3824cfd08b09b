"""A session as a plain list of all that was ever sampled, searched by brute force.

It answers the ledger's question, which turn a history continues, and shares no code with it: messages are
dictionaries, every sample is tried on every history, and JSON is compared value by value.
"""

import json
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Said = Mapping[str, Any]
"""A message: `role`, `content`, and where it has them `reasoning`, `calls` of `id`, `name`, `arguments`, and `answers`."""


@dataclass(frozen=True, slots=True)
class Above:
    """What a request says beside its messages."""

    model: str = "m"
    kwargs: Mapping[str, Any] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One completion: what the engine saw, what it sampled, and what the client was told."""

    id: str
    above: Above
    asked: tuple[Said, ...]
    """The request in the client's words, on which it will build its next one."""
    path: tuple[tuple[Said, bool], ...]
    """All that was said, the answer included, and whether an engine said it; without the leading system messages.
    Answers stand here as they were recorded, whatever clients made of them since."""
    answer: Said
    whole: "array[int]"
    """The prompt that the engine saw, and what it sampled."""
    start: int
    """Where the sampled ids begin."""
    logprobs: "array[float]"
    end: str
    """`stop`, `length`, `repetition`, `abort`, or `cut`: a stop string ended inside a token."""

    @property
    def complete(self) -> bool:
        return self.end != "abort"


@dataclass(frozen=True, slots=True)
class Found:
    """The sample that a history continues, ``None`` at a beginning; what is new since; how the replay differed."""

    sample: Sample | None
    new: tuple[Said, ...]
    differences: Counter[str]
    """How many answers were replayed with each."""


def leading(asked: Sequence[Said]) -> int:
    """How many system messages a history begins with."""
    count = 0
    while count < len(asked) and asked[count]["role"] == "system":
        count += 1
    return count


def find(samples: Sequence[Sample], asked: Sequence[Said], above: Above) -> Found:
    """Try every sample: the longest path that fits wins, then the least doubt, the fewest differences, the latest."""
    rest = asked[leading(asked) :]
    fits: list[tuple[int, bool, int, int, Counter[str]]] = []
    for position, sample in enumerate(samples):
        if sample.complete and len(sample.path) <= len(rest) and same_lineage(sample, asked, above):
            kinds = rewritten_path(sample.path, rest)
            if kinds is not None:
                fits.append((len(sample.path), "tool_call_id_missing" not in kinds, -len(kinds), position, kinds))
    if not fits:
        return Found(None, tuple(asked), Counter())
    length, *best, position, kinds = max(fits, key=lambda fit: fit[:4])
    rivals = [fit for fit in fits if fit[0] == length and fit[3] != position]
    if any([*rival[1:3]] == best or rival[4].keys() - {"reasoning_dropped"} <= kinds.keys() for rival in rivals):
        kinds["ambiguous_sibling"] += 1
    return Found(samples[position], tuple(rest[length:]), kinds)


def left_out(samples: Sequence[Sample], asked: Sequence[Said], above: Above) -> bool:
    """Whether a history without answers goes on from one that was answered, as if it had not been."""
    rest = asked[leading(asked) :]
    lineage = [sample for sample in samples if sample.complete and same_lineage(sample, asked, above)]
    starts = [[said for said, _ in sample.path[:-1]] for sample in lineage]
    return any(len(start) < len(rest) and list(rest[: len(start)]) == start for start in starts)


def same_lineage(sample: Sample, asked: Sequence[Said], above: Above) -> bool:
    """Whether everything above the messages is what it was."""
    then, now = sample.asked[: leading(sample.asked)], asked[: leading(asked)]
    return (
        [m["content"] for m in then] == [m["content"] for m in now]
        and sample.above.model == above.model
        and same_json(sample.above.kwargs or {}, above.kwargs or {})
        and same_json(sample.above.tools, above.tools)
    )


def rewritten_path(path: Sequence[tuple[Said, bool]], rest: Sequence[Said]) -> Counter[str] | None:
    """The kinds of differences with which a history begins with `path`; ``None`` if it does not."""
    kinds = Counter[str]()
    for (recorded, sampled), replayed in zip(path, rest, strict=False):
        found = rewritten(recorded, replayed) if sampled else set() if recorded == replayed else None
        if found is None:
            return None
        kinds.update(found)
    return kinds


def rewritten(recorded: Said, replayed: Said) -> set[str] | None:
    """How a replayed answer differs from the recorded one; ``None`` when it is another answer."""
    kinds = rewritten_calls(recorded.get("calls", ()), replayed.get("calls", ()))
    if kinds is None or replayed["role"] != "assistant":
        return None
    proven = bool(recorded.get("calls")) and "tool_call_id_missing" not in kinds
    ours, theirs = recorded["content"], replayed["content"]
    if ours.strip() != theirs.strip():
        if theirs.strip() or not proven:
            return None
        kinds.add("content_dropped")
    elif ours != theirs:
        kinds.add("content_whitespace")
    thought, thinks = recorded.get("reasoning", ""), replayed.get("reasoning", "")
    if thought and thinks:
        if thought.strip() != thinks.strip():
            return None
        kinds |= {"reasoning_whitespace"} if thought != thinks else set()
    elif thought or thinks:
        kinds.add("reasoning_dropped" if thought else "reasoning_added")
    return kinds


def rewritten_calls(recorded: Sequence[Said], replayed: Sequence[Said]) -> set[str] | None:
    """The differences between two lists of calls; ``None`` if they are not the same calls."""
    kinds = set()
    if len(recorded) != len(replayed):
        return None
    for ours, theirs in zip(recorded, replayed, strict=True):
        if theirs["id"] not in ("", ours["id"]) or ours["name"] != theirs["name"]:
            return None
        if theirs["id"] == "":
            kinds.add("tool_call_id_missing")
        if ours["arguments"] != theirs["arguments"]:
            kinds.add("arguments_reserialised")
            try:
                if not same_json(plain(ours["arguments"]), plain(theirs["arguments"])):
                    return None
            except ValueError:
                return None
    return kinds


def plain(text: str) -> Any:
    """The value of JSON text that every parser reads alike.

    Raises:
        ValueError: it is no JSON, or holds a key twice, or a number that is none.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError("twice the same key")
        return dict(pairs)

    def never(constant: str) -> Any:
        raise ValueError(constant)

    return json.loads(text or "{}", object_pairs_hook=once, parse_constant=never)


def same_json(ours: Any, theirs: Any) -> bool:
    """Equality of values, truth kept apart from numbers."""
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return ours.keys() == theirs.keys() and all(same_json(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(map(same_json, ours, theirs))
    return bool(ours == theirs)
