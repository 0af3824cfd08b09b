"""What the demo shows: what re-tokenizing would have got wrong, and whether the gateway kept its promises."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, cast

from gateway.demo.agent import TOOLS, TURNS, Exchange, Json
from gateway.sim.journal import Entry


@dataclass(frozen=True, slots=True)
class Line:
    """One turn as the table shows it."""

    session: str
    number: int
    """Its place in the session, from one."""
    turn: Json
    """As a row shows it to a trainer."""
    trained: int
    """Ids with loss mask 1."""
    moved: int
    lost: int
    """What re-tokenizing the prompt and the answer would get wrong; see `wrong`."""

    @property
    def bridged(self) -> bool:
        """Whether its prompt extended the ids of the turn before."""
        return bool(self.turn["how"] == "bridged")


def lines_of(tokenizer: Any, session: str, exchanges: Sequence[Exchange], rows: Sequence[Json]) -> list[Line]:
    """The lines of one session's turns, as far as the rows hold them."""
    parts = {turn["turn_id"]: (row, turn) for row in rows for turn in row["turns"]}
    lines = []
    for number, exchange in enumerate(exchanges, start=1):
        if exchange.turn_id in parts:
            row, turn = parts[exchange.turn_id]
            again = tokenizer.apply_chat_template(exchange.history, tools=TOOLS, tokenize=True, return_dict=False)
            counts = wrong(exchange.prompt_ids + exchange.completion_ids, again)
            lines.append(Line(session, number, turn, sum(row["loss_mask"][turn["start"] : turn["end"]]), *counts))
    return lines


def wrong(recorded: Sequence[int], again: Sequence[int]) -> tuple[int, int]:
    """How many of the `recorded` ids are not in their place in `again`, and how many are in no place of it.

    The first counts every id behind a shift; the second aligns both first, and is the least one can say.
    """
    kept = sum(ours == theirs for ours, theirs in zip(recorded, again, strict=False))
    blocks = SequenceMatcher(None, recorded, again, autojunk=False).get_matching_blocks()
    return len(recorded) - kept, len(recorded) - sum(block.size for block in blocks)


def faults_of(exchanges: Sequence[Exchange], rows: Sequence[Json]) -> list[str]:
    """The invariants that do not hold between what an agent saw and what its trainer gets."""
    faults = [] if len(exchanges) >= TURNS else [f"{len(exchanges)} turns, not {TURNS}"]
    parts = {turn["turn_id"]: (row, turn) for row in rows for turn in row["turns"]}
    before: list[int] = []
    for number, exchange in enumerate(exchanges, start=1):
        if exchange.turn_id not in parts:
            faults.append(f"turn {number} is in no row")
            continue
        row, turn = parts[exchange.turn_id]
        start, end = turn["start"], turn["end"]
        known = exchange.prompt_ids + exchange.completion_ids
        if row["token_ids"][:end] != known or end - start != len(exchange.completion_ids):
            faults.append(f"turn {number}: the row's ids are not those of the answer")
        if turn["how"] == "bridged" and known[: len(before)] != before:
            faults.append(f"turn {number}: bridged, but it does not extend the turn before")
        if not all(math.isfinite(value) and value <= 0 for value in row["logprobs"][start:end]):
            faults.append(f"turn {number}: a sampled id without a logprob")
        before = known
    sampled = sum(len(exchange.completion_ids) for exchange in exchanges)
    if sampled != sum(sum(row["loss_mask"]) for row in rows):
        faults.append("the sampled tokens are not trained exactly once")
    return faults


def faults_of_engine(entries: Sequence[Entry], exchanges: Sequence[Exchange], ranks: Sequence[int]) -> list[str]:
    """What the simulated engine's own journal contradicts: its prompts, its ids, and `ranks`, one for each turn.

    A session stays on one rank, which holds its prefix; the rank is compared where the gateway asked for one.
    """
    served = {(tuple(cast("list[int]", entry.token_ids)), tuple(entry.emitted)): entry for entry in entries}
    faults = [] if len(set(ranks)) < 2 else [f"its turns were spread over ranks {sorted(set(ranks))}"]
    for number, (exchange, rank) in enumerate(zip(exchanges, ranks, strict=False), start=1):
        entry = served.get((tuple(exchange.prompt_ids), tuple(exchange.completion_ids)))
        if entry is None:
            faults.append(f"turn {number} is not what the engine was asked and said")
        elif "x-data-parallel-rank" in entry.headers and entry.rank != rank:
            faults.append(f"turn {number} was served by rank {entry.rank}, not by rank {rank}")
    return faults
