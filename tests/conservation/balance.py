"""What left the engine, held against what a trainer is told: token for token, as multisets."""

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from struct import pack
from typing import Literal

from tests.recorder import Exchange

Key = tuple[bytes, int, int, bytes]
"""One sampled token: a hash of all ids before it, its position, its id, and its logprob as float32."""
Outcome = Literal["answered", "hung_up", "failed"]

EVENT_IDS = 4
"""How many ids an engine says at once: `stream_interval_tokens` of the gateway under trial."""
_EVENTS_ON_THEIR_WAY = 6
"""How many events can be on their way when a client leaves: one at the proxy, which has counted it; one in each socket
and in each reader's hands on both sides of it; and one that the engine says until it notices."""
UNREAD_IDS = _EVENTS_ON_THEIR_WAY * EVENT_IDS


def keys_of(prompt: Sequence[int], ids: Sequence[int], logprobs: Sequence[float]) -> list[Key]:
    """The tokens that were sampled after `prompt`."""
    context = blake2b(array("I", prompt).tobytes(), digest_size=16)
    keys = []
    for position, (token_id, logprob) in enumerate(zip(ids, logprobs, strict=True), len(prompt)):
        keys.append((context.digest(), position, token_id, pack("<f", logprob)))
        context.update(pack("=I", token_id))
    return keys


@dataclass(frozen=True, slots=True)
class Seen:
    """One call of an engine's, as the proxy saw it."""

    request_id: str
    """What the gateway calls it."""
    keys: Sequence[Key]
    """All that came with good evidence, up to the first event that did not."""
    finished: bool
    """Whether the engine ended it, and all of it is to be believed."""
    unbelieved: int
    """How many ids came after those."""
    is_believable: bool
    unread: Sequence[int] = ()
    """Where it is several calls of one answer: how many ids of each the next one did not go on behind."""
    is_given_up: bool = False
    """Whether its answer was asked for anew in another call."""

    @property
    def call(self) -> str:
        """What the client calls it; of several choices, each has a number behind."""
        return self.request_id.partition("-")[0]


_RESUMED = re.compile(r"(.*)-r(\d+)")
"""What the gateway calls the calls of an answer after the first."""


def seen_of(exchanges: Iterable[Exchange]) -> list[Seen]:
    """What the proxy saw; calls that go on with one answer are one."""
    seen: list[Seen] = []
    for exchange in exchanges:
        good, whole = slice(exchange.good_ids), exchange.good_ids is None
        keys = keys_of(exchange.prompt, exchange.completion[good], exchange.logprobs[good])
        finished = whole and exchange.finish_reason not in (None, "abort")
        seen.append(Seen(exchange.request_id, keys, finished, len(exchange.completion) - len(keys), whole))
    return joined(seen)


def joined(seen: Iterable[Seen]) -> list[Seen]:
    """Each answer's calls as one, where one goes on behind what those before have said; made anew they stay apart."""
    answers: dict[str, list[tuple[int, Seen]]] = {}
    for call in seen:
        resumed = _RESUMED.fullmatch(call.request_id)
        name, number = (resumed[1], int(resumed[2])) if resumed else (call.request_id, 0)
        answers.setdefault(name, []).append((number, call))
    calls = []
    for numbered in answers.values():
        _, (whole, *rest) = zip(*sorted(numbered, key=lambda each: each[0]), strict=True)
        for call in rest:
            at = call.keys[0][1] - whole.keys[0][1] if call.keys and whole.keys else 0
            if not call.keys:
                calls.append(replace(call, is_given_up=call is not rest[-1]))
            elif 0 < at <= len(whole.keys):
                unread = (*whole.unread, len(whole.keys) - at)
                unbelieved = whole.unbelieved + call.unbelieved
                whole = replace(
                    call,
                    request_id=whole.request_id,
                    keys=[*whole.keys[:at], *call.keys],
                    unbelieved=unbelieved,
                    unread=unread,
                )
            else:
                calls.append(replace(whole, is_given_up=True))
                whole = call
        calls.append(whole)
    return calls


@dataclass(frozen=True, slots=True)
class Told:
    """One turn, as rows train it, or as it is left out of them."""

    turn_id: str
    because: str | None
    """Why it is left out; ``None`` where rows train it."""
    keys: Sequence[Key]
    complete: bool
    overshoot: int
    may_end: bool = False
    """Whether it may be complete though its engine's call was cut before it said so: with a stop, or at its length."""


@dataclass(slots=True)
class Balance:
    """Where every token went."""

    seen: int = 0
    trained: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    """By reason."""
    overshoot: int = 0
    """Behind a completed stop string."""
    unread: int = 0
    """On their way when a client left, or a connection broke."""
    most_unread: int = 0
    """Of one call."""
    unbelieved: int = 0
    """Of calls whose evidence failed, save what had been read when their clients left before that."""
    faults: list[str] = field(default_factory=list)

    def note_unread(self, tokens: int) -> None:
        """Count what of one call was never read."""
        self.unread += tokens
        self.most_unread = max(self.most_unread, tokens)

    def __str__(self) -> str:
        out = " ".join(f"{why}={tokens}" for why, tokens in sorted(self.excluded.items()))
        lost = f"unread={self.unread} most_unread={self.most_unread}/{UNREAD_IDS} unbelieved={self.unbelieved}"
        return f"seen={self.seen} trained={self.trained} {out} overshoot={self.overshoot} {lost}"

    @property
    def difference(self) -> int:
        """Tokens that went nowhere."""
        return self.seen - self.trained - self.excluded.total() - self.overshoot - self.unread - self.unbelieved


def balance_of(
    seen: Sequence[Seen], told: Sequence[Told], outcomes: Mapping[str, Outcome], *, may_be_unread: int = UNREAD_IDS
) -> Balance:
    """Hold both against each other; `may_be_unread` is how many ids of one call."""
    balance = Balance(seen=sum(len(call.keys) + call.unbelieved + sum(call.unread) for call in seen))
    balance.unbelieved = sum(call.unbelieved for call in seen)
    for turn in told:
        if turn.because is None:
            balance.trained += len(turn.keys)
        else:
            balance.excluded[turn.because] += len(turn.keys)
    for call in seen:
        for unread in call.unread:
            balance.note_unread(unread)
            if unread > may_be_unread:
                balance.faults.append(f"{call.request_id}: it was gone on with {unread} ids before it was cut")
    balance.faults += _invented(seen, told)
    choices = Counter(call.call for call in seen)
    pairs, rest = _matched(seen, told)
    for turn, call in pairs:
        unread = len(call.keys) - len(turn.keys) - turn.overshoot
        balance.overshoot += turn.overshoot
        balance.note_unread(unread)
        if unread > may_be_unread:
            balance.faults.append(f"{turn.turn_id}: it ends {unread} ids before the engine did")
        if not call.is_believable and choices[call.call] == 1 and outcomes.get(call.call) != "hung_up":
            balance.faults.append(f"{turn.turn_id}: it was recorded, though the evidence of its call failed")
    paired = {turn.turn_id for turn, _ in pairs}
    for turn in told:
        if turn.turn_id not in paired:
            balance.faults.append(f"{turn.turn_id}: no call of the engine's said these {len(turn.keys)} ids")
    for call in rest:
        balance.faults += _untold(call, outcomes.get(call.call), balance, may_be_unread)
    if balance.difference:
        balance.faults.append(f"{balance.difference} tokens went nowhere")
    return balance


def _matched(seen: Iterable[Seen], told: Iterable[Told]) -> tuple[list[tuple[Told, Seen]], list[Seen]]:
    """Each turn with a call that it can be of, and the calls that are left."""
    rest: dict[Sequence[Key], list[Seen]] = {}
    for call in sorted(seen, key=lambda call: not call.is_believable):
        rest.setdefault(tuple(call.keys[:1]), []).append(call)
    pairs = []
    # Of partials that may be those of several calls, the longest can be of the fewest.
    for turn in sorted(told, key=lambda turn: (not turn.complete, -len(turn.keys))):
        alike = rest.get(tuple(turn.keys[:1]), [])
        number = next((number for number, call in enumerate(alike) if _is_of(turn, call)), None)
        if number is not None:
            pairs.append((turn, alike.pop(number)))
    return pairs, [call for alike in rest.values() for call in alike]


def _invented(seen: Iterable[Seen], told: Iterable[Told]) -> Iterator[str]:
    """What is told oftener than it was seen."""
    left = Counter(key for call in seen for key in call.keys)
    for turn in told:
        left.subtract(turn.keys)
        if key := next((key for key in turn.keys if left[key] < 0), None):
            yield f"{turn.turn_id}: id {key[2]} at position {key[1]} is told oftener than the engine said it"


def _is_of(turn: Told, call: Seen) -> bool:
    """Whether a turn can be what is told of a call: all of it up to its stop, or what was read before it broke off."""
    length, rest = len(turn.keys), len(call.keys) - len(turn.keys)
    is_whole = (call.finished or turn.may_end) and rest == turn.overshoot
    return (is_whole or (not turn.complete and rest >= turn.overshoot)) and call.keys[:length] == turn.keys


def _untold(call: Seen, outcome: Outcome | None, balance: Balance, may_be_unread: int) -> Iterator[str]:
    """Account for a call of which nothing is told."""
    if not call.is_believable:
        balance.unbelieved += len(call.keys)
        if outcome == "answered" and not call.is_given_up:
            yield f"{call.request_id}: it was answered, though its evidence failed"
        return
    balance.note_unread(len(call.keys))
    # Whose connection breaks before its first event is read is made anew, as one that said nothing.
    was_broken_off = outcome in ("hung_up", "failed") or (call.is_given_up and not call.finished)
    if len(call.keys) > (may_be_unread if was_broken_off else 0):
        yield f"{call.request_id}: the engine said {len(call.keys)} ids to a call that was {outcome}; nothing tells of it"
