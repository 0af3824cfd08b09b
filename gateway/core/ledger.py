"""A session's forest of turns.

A turn is one sampled completion. Its parent is the turn whose answer is the last one of ours in the history
that the agent sent; turns without a parent start a branch. The forest only grows: nothing is edited and
nothing erased, so a rewritten history, a retry or a sub-agent is simply another branch.

Taking a turn has two phases. `Ledger.prepare` finds the parent and changes nothing. After the engine has
answered, `PendingTurn.seal` makes the record, which may then be stored, and `PendingTurn.commit` makes it
visible: the one mutation, synchronous, so that calls in one session need no lock. Whoever stops in between
leaves no trace.

Mutable state: the attributes of `Ledger` and the nodes below its origin, written by `Ledger._add` only, save
the word on deliveries, which `Ledger.note_delivery` writes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gateway.core import matching
from gateway.core.canon import Difference, Policy, Root, gist, root_of, split_system
from gateway.core.matching import Match
from gateway.core.reason import Reason
from gateway.core.rope import Rope, difference, rope
from gateway.core.turn import Heard, Node, Prompt, Turn, said
from gateway.core.types import Answer, Completion, Message, Messages, Origin, TurnRequest, token_ids
from gateway.errors import LedgerError


class Known(NamedTuple):
    """How well a session knows a history; the greater of two knows it better."""

    messages: int = 0
    """Up to our last answer in it, without the leading system messages; with none, it is not known at all."""
    calls: int = 0
    """Calls of our answers on the way there that came back under our ids."""
    lineage: bool = False
    """Whether what stands above it, tools and system messages, was seen here before."""


class Ledger:
    """The turns of one session, in the order in which they were recorded."""

    def __init__(self, policy: Policy = "canonical") -> None:
        self._policy = policy
        self._turns: list[Turn] = []
        self._order: dict[Turn, int] = {}
        self._delivered: dict[Turn, bool] = {}
        self._origin = Node(None, Message("system"))
        self._latest: dict[Root, Turn] = {}
        # The last turn of each lineage, aborted ones included.
        self._gists: dict[bytes, Turn] = {}
        # The last turn that answered so.
        self._own_ids: dict[str, str] = {}
        # The model's own tool-call ids, by those that the client knows.

    @property
    def turns(self) -> Sequence[Turn]:
        """All turns, oldest first, aborted ones included. The list grows at its end, and not otherwise."""
        return self._turns

    def note_delivery(self, turn: Turn, *, delivered: bool) -> None:
        """Whether the answer reached its client, as far as the socket tells; the latest word counts."""
        self._delivered[turn] = delivered

    def was_delivered(self, turn: Turn) -> bool | None:
        """The latest word on a turn's delivery; ``None`` when nothing is known yet."""
        return self._delivered.get(turn)

    def known_turns(self, messages: Messages, root: Root) -> Known:
        """How well a history is known here, of which turn and lineage ever; `root` is what stands above it now."""
        match = matching.find(self._origin, split_system(messages)[1], None, self._policy, self._order)
        ours = {call.id for turn in match.turns() for call in turn.message.tool_calls}
        returned = {call.id for message in messages for call in message.tool_calls}
        return Known(match.length, len(ours & returned), match.turn is not None and root in self._latest)

    def prepare(self, request: TurnRequest) -> "PendingTurn":
        """Find the longest known path that `request` continues; changes nothing."""
        root = root_of(request)
        if root in self._latest:
            root = self._latest[root].root  # one copy of what stands above, however often it is sent
        system, messages = split_system(request.messages)
        match = matching.find(self._origin, messages, root, self._policy, self._order)
        reason = self._why_not(root, messages, match)
        asked = match.node.below(messages[match.length :])
        heard = Heard(messages[match.length - 1], match.added) if match.turn else None
        return PendingTurn(self, request, root, match.turn, heard, tuple(system), asked, match.differences(), reason)

    def _why_not(self, root: Root, messages: Messages, match: Match) -> Reason | None:
        """Why this history cannot extend recorded ids, as far as the forest can tell; ``None`` if it may."""
        rest = messages[match.length :]
        answer = next((i for i, message in enumerate(rest) if message.role == "assistant"), None)
        if answer is not None:
            return self._why_unknown(root, messages, match, match.length + answer)
        if match.turn is None:
            passed = [match.node, *_known(match.node, rest[:-1])] if rest else []
            left_out = any(_answered(node, root) for node in passed)
            return Reason.HISTORY_SHORTENED if left_out else Reason.FIRST_TURN
        if not rest:
            return Reason.NO_NEW_MESSAGES
        return Reason.STOP_CUT if "stop_cut" in match.turn.flags else None

    def _why_unknown(self, root: Root, messages: Messages, match: Match, answer: int) -> Reason:
        """Why the assistant message at `answer` is none of ours at its place."""
        if not self._turns:
            return Reason.FIRST_TURN
        elsewhere = matching.find(self._origin, messages, None, self._policy, self._order)
        if elsewhere.turn is not None and elsewhere.length > match.length:
            return _changed(elsewhere.turn.root, root)
        before = messages[match.length : answer]
        nodes = [match.node, *_known(match.node, before)]
        if len(nodes) > len(before) and _answered(nodes[-1], root):
            return Reason.HISTORY_EDITED
        ours = self._gists.get(gist(messages[answer]))
        if ours is None:
            return Reason.FOREIGN_ASSISTANT
        left_out = _is_within(messages[:answer], ours.asked.path())
        return Reason.HISTORY_SHORTENED if left_out else Reason.HISTORY_EDITED

    def _stored(self, ids: Sequence[int], asked: Node, root: Root) -> Rope:
        """A rendered prompt as its difference from the one that is most like it, as far as the messages tell."""
        node: Node | None = asked
        while node is not None and node.turn is None:
            node = node.parent
        like = node.turn if node else self._latest.get(root) or next(reversed(self._turns), None)
        return difference(like.sequence, ids) if like else rope(ids)

    def _add(self, turn: Turn) -> None:
        self._order[turn] = len(self._turns)
        self._turns.append(turn)
        self._latest[turn.root] = turn
        turn.asked.link(turn)
        if turn.status == "aborted":
            return
        turn.asked.answers.append(turn)
        self._gists[gist(turn.message)] = turn
        self._own_ids |= {call.id: call.own_id for call in turn.message.tool_calls if call.own_id is not None}


def _changed(before: Root, now: Root) -> Reason:
    """The first difference of two roots."""
    if before.model != now.model:
        return Reason.MODEL_CHANGED
    if before.template_kwargs != now.template_kwargs:
        return Reason.TEMPLATE_KWARGS_CHANGED
    return Reason.TOOLS_CHANGED if before.tools != now.tools else Reason.SYSTEM_CHANGED


def _known(node: Node, messages: Messages) -> Iterator[Node]:
    """The nodes after each of `messages`, as far as clients said just these from `node` on."""
    for message in messages:
        following = node.next(message)
        if not following:
            return
        node = following[0]
        yield node


def _answered(node: Node, root: Root) -> bool:
    return any(turn.root == root for turn in node.answers)


def _is_within(messages: Messages, longer: Messages) -> bool:
    """Whether `messages` are what is left of `longer` when some of it is left out."""
    rest = map(_meaning, longer)
    return all(_meaning(message) in rest for message in messages)  # each search goes on where the last one ended


def _meaning(message: Message) -> object:
    return gist(message) if message.role == "assistant" else said(message)


def _translated(message: Message, own: Mapping[str, str]) -> Message:
    calls = tuple(replace(call, id=own.get(call.id, call.id)) for call in message.tool_calls)
    answered = message.tool_call_id
    return replace(message, tool_calls=calls, tool_call_id=own.get(answered, answered) if answered else answered)


@dataclass(frozen=True, slots=True, eq=False)
class PendingTurn:
    """A prepared turn, waiting for its completion."""

    ledger: Ledger
    request: TurnRequest
    root: Root
    parent: Turn | None
    heard: Heard | None
    """The parent's answer as it came back."""
    system: Messages
    """The leading system messages."""
    asked: Node
    """The last message of the request; below the parent's answer, if there is a parent."""
    differences: Mapping[str, Difference]
    unbridgeable: Reason | None
    """Why the prompt must be rendered, where the history alone tells; ``None`` when a bridge may be tried."""

    def extension(self) -> list[Message]:
        """The new messages, as a bridge must show them to the model."""
        return self._in_own_words(self.asked.path(after=self.parent.node if self.parent else None))

    def history(self) -> list[Message]:
        """The whole history for a full render: our own answers as they were recorded."""
        return self._in_own_words([*self.system, *self.asked.path()])

    def _in_own_words(self, messages: Messages) -> list[Message]:
        """The messages with the model's own tool-call ids: it must not see ids that it did not write."""
        own = self.ledger._own_ids
        return [_translated(message, own) for message in messages] if own else list(messages)

    def bridged(self, ids: list[int], parent: Turn) -> Prompt:
        """A prompt that begins with the parent's ids and its completion."""
        new = token_ids(ids[parent.prompt.length + len(parent.completion.ids) :])
        return Prompt(ids, parent.prompt.extended(parent.completion.ids, new), parent, None)

    def rendered(self, ids: list[int], reason: Reason | None) -> Prompt:
        """A prompt that was rendered in full, for `reason`."""
        return Prompt(ids, self.ledger._stored(ids, self.asked, self.root), None, reason)

    def seal(self, turn_id: str, prompt: Prompt, completion: Completion, answer: Answer, origin: Origin) -> Turn:
        """The record of this turn, not yet part of the ledger.

        Raises:
            LedgerError: the prompt claims a base other than the parent, or is no longer than its base.
        """
        base = prompt.base
        known = base.prompt.length + len(base.completion.ids) if base else 0
        if base not in (None, self.parent) or len(prompt.ids) <= known or prompt.stored.length != len(prompt.ids):
            raise LedgerError(f"a prompt of {len(prompt.ids)} ids does not extend the {known} ids of its base")
        turn = Turn(
            id=turn_id,
            root=self.root,
            parent=self.parent,
            base=base,
            node=Node(self.asked, answer.message),
            prompt=prompt.stored,
            completion=completion,
            reason=prompt.reason,
            differences=self.differences,
            flags=answer.flags,
            origin=origin,
            labels=self.request.labels,
        )
        turn.node.turn = turn
        return turn

    def commit(self, turn: Turn) -> None:
        """Make a sealed turn visible."""
        self.ledger._add(turn)
        if self.parent is not None:
            self.parent.node.heard = self.heard
