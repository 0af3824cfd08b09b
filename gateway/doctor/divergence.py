"""Where a history that came back is not the one that was said: message by message, with what differs."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from gateway.core.canon import Policy, accepted_differences, gist, identity
from gateway.core.types import Message, Messages, Role

Change = Literal["accepted", "rewritten", "removed", "inserted"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """One message that is not as it was said."""

    position: int
    """Its index in the history that came back; of one that was removed, where it would have stood."""
    role: Role
    change: Change
    """`accepted` is a rewrite that the gateway takes for what it was; the others make another history."""
    kinds: tuple[str, ...]
    """What differs: names of `gateway.core.canon.DIFFERENCES` where accepted, of parts of a message where rewritten."""
    before: Message | None
    """``None`` where it was inserted."""
    after: Message | None
    """``None`` where it was removed."""


def divergences(said: Messages, sent: Messages, policy: Policy = "canonical") -> list[Divergence]:
    """How `sent` differs from `said`, in the order of `sent`. What only comes behind is new, and no difference."""
    found: list[Divergence] = []
    blocks = aligned(said, sent)
    for tag, i, i_end, j, j_end in blocks:
        if tag == "equal":
            pairs = zip(range(j, j_end), said[i:i_end], sent[j:j_end], strict=True)
            found += [one for at, before, after in pairs if (one := _compared(at, before, after, policy))]
        else:
            found += _replaced(said[i:i_end], sent[j:j_end], j, last=i_end == len(said), policy=policy)
    return found


def shared(said: Messages, sent: Messages) -> list[int]:
    """The indexes in `said` of the messages that come back in `sent`, in their order, the system's left out."""
    blocks = (range(i, i_end) for tag, i, i_end, _, _ in aligned(said, sent) if tag == "equal")
    return [at for block in blocks for at in block if said[at].role != "system"]


def aligned(said: Messages, sent: Messages) -> Sequence[tuple[str, int, int, int, int]]:
    """Which stretches of both are alike, as `difflib` has it; answers by what clients keep of them."""
    return SequenceMatcher(None, [_key(one) for one in said], [_key(one) for one in sent], autojunk=False).get_opcodes()


def _key(message: Message) -> Hashable:
    return ("assistant", gist(message)) if message.role == "assistant" else identity(message)


def _compared(at: int, before: Message, after: Message, policy: Policy) -> Divergence | None:
    """How a message came back that is in its place; ``None`` where it is the same."""
    if identity(before) == identity(after) and before.role == after.role:
        return None
    accepted = accepted_differences(before, after, policy) if before.role == after.role == "assistant" else None
    if accepted is not None:
        return Divergence(at, after.role, "accepted", accepted, before, after) if accepted else None
    return Divergence(at, after.role, "rewritten", tuple(_parts(before, after)), before, after)


def _parts(before: Message, after: Message) -> Iterator[str]:
    if before.content != after.content:
        yield "content"
    if (before.reasoning or "") != (after.reasoning or ""):
        yield "reasoning"
    if before.tool_calls != after.tool_calls:
        yield "tool_calls"
    if before.tool_call_id != after.tool_call_id:
        yield "tool_call_id"


def _replaced(said: Messages, sent: Messages, start: int, *, last: bool, policy: Policy) -> list[Divergence]:
    """A stretch in the place of another: messages of one role are paired in order.

    Behind the last pair of the `last` stretch everything is new.
    """
    found: list[Divergence] = []
    at = 0
    for before in said:
        partner = next((k for k in range(at, len(sent)) if sent[k].role == before.role), None)
        if partner is None:
            found.append(Divergence(start + at, before.role, "removed", (), before, None))
            continue
        found += _inserted(sent, at, partner, start)
        different = _compared(start + partner, before, sent[partner], policy)
        found += [different] if different else []
        at = partner + 1
    return found if last else [*found, *_inserted(sent, at, len(sent), start)]


def _inserted(sent: Messages, begin: int, end: int, start: int) -> list[Divergence]:
    return [Divergence(start + k, sent[k].role, "inserted", (), None, sent[k]) for k in range(begin, end)]
