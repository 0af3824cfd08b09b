"""A session's forest of turns.

A turn is one sampled completion. Its parent is the turn whose answer is the last one of ours in the history
that the agent sent; turns without a parent start a branch. The forest only grows: nothing is edited and
nothing erased, so a rewritten history, a retry or a sub-agent is simply another branch.

Taking a turn has two phases. `Ledger.prepare` finds the parent and changes nothing. After the engine has
answered, `PendingTurn.seal` makes the record, which may then be stored, and `PendingTurn.commit` makes it
visible: the one mutation, synchronous, so that calls in one session need no lock. Whoever stops in between
leaves no trace.

Mutable state: the attributes of `Ledger` and its tree, written when a turn is committed, save what is learnt of
deliveries later. A prepared turn needs nothing of it but single values, so prompts
may be built in another thread meanwhile.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import NamedTuple

from gateway.core import matching
from gateway.core.canon import Difference, Policy, Root, gist, identity, root_of, split_system
from gateway.core.deliveries import Deliveries
from gateway.core.matching import Match
from gateway.core.reason import Reason
from gateway.core.rope import rope
from gateway.core.sampling import SamplingRecord
from gateway.core.tree import Tree
from gateway.core.turn import Node, Prompt, Replay, Turn, answer_node
from gateway.core.types import Answer, Completion, EndedBy, Message, Messages, Origin, TurnRequest
from gateway.errors import LedgerError

_TURNS_ASKED = 8
"""How many turns that answered alike are asked whether a history is what is left of theirs."""


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
        self.deliveries = Deliveries()
        """Which answers arrived."""
        self.tree = Tree()
        """All that was said; only read elsewhere."""
        self._texts: dict[str, str] = {}
        # One copy of what stands above the messages, however often it is sent.
        self._latest: dict[Root, Turn] = {}
        # The last turn of each lineage, aborted ones included.
        self._by_call: dict[str, Turn] = {}
        # The turns that made calls, by the ids that the client knows.
        self._gists: dict[bytes, list[Turn]] = {}
        # The turns that answered so.
        self._own_ids: dict[str, str] = {}
        # The model's own tool-call ids, by those that the client knows.

    @property
    def turns(self) -> Sequence[Turn]:
        """All turns, oldest first, aborted ones included. The list grows at its end, and not otherwise."""
        return self._turns

    def known_turns(self, messages: Messages, root: Root) -> Known:
        """How well a history is known here, of which turn and lineage ever; `root` is what stands above it now."""
        match = matching.find(self.tree, split_system(messages)[1], None, self._policy, self._order)
        ours = {call.id for turn, _ in match.way() for call in turn.message.tool_calls}
        returned = {call.id for message in messages for call in message.tool_calls}
        return Known(match.length, len(ours & returned), match.turn is not None and root in self._latest)

    def history(self, turn: Turn) -> list[Message]:
        """The messages up to and with a committed turn's answer, without the leading system messages."""
        return self.tree.path(turn.node)

    def prepare(self, request: TurnRequest) -> "PendingTurn":
        """Find the longest known path that `request` continues; changes nothing."""
        root = root_of(request)
        known_as = self._latest.get(root)
        if known_as and known_as.root.sent == root.sent:
            root = known_as.root
        else:
            root = Root(*(self._texts.get(text, text) for text in astuple(root)))
        system, messages = split_system(request.messages)
        match = matching.find(self.tree, messages, root, self._policy, self._order)
        new = messages[match.length :]
        known = list(self.tree.follow(match.node, new))
        like, why_not = self._like(root, new, match, known), self._why_not(root, messages, match, known)
        return PendingTurn(self, request, root, match, system, messages, like, why_not)

    def _like(self, root: Root, new: Messages, match: Match, known: Sequence[tuple[Node, bool]]) -> Turn | None:
        """A turn whose prompt the next most probably repeats: the one that gave the last answer, where it is ours."""
        answer = next((message for message in reversed(new) if message.role == "assistant"), None)
        given = self._given(answer) if answer else ()
        brought = known[-1][0].turn if known else match.turn
        return (given or (brought or self._latest.get(root),))[-1] or (self._turns[-1] if self._turns else None)

    def _given(self, answer: Message) -> Sequence[Turn]:
        """The turns that gave an answer, as its calls' ids prove or as it says."""
        named = [self._by_call[call.id] for call in answer.tool_calls if call.id in self._by_call]
        return named or self._gists.get(gist(answer), ())

    def _why_not(
        self, root: Root, messages: Messages, match: Match, known: Sequence[tuple[Node, bool]]
    ) -> Reason | None:
        """Why this history cannot extend recorded ids, as far as the forest can tell; ``None`` if it may.

        `known` says how far what comes after the match was said before.
        """
        rest = messages[match.length :]
        answers = [length for length, message in enumerate(rest) if message.role == "assistant"]
        if answers:
            return self._why_unknown(root, messages, match, known, answers)
        if match.turn is None:
            passed = [match.node, *(node for node, ended in known[: len(rest) - 1] if ended)] if rest else []
            left_out = any(_answered(node, root) for node in passed)
            return Reason.HISTORY_SHORTENED if left_out else Reason.FIRST_TURN
        if not rest:
            return Reason.NO_NEW_MESSAGES
        return Reason.STOP_CUT if "stop_cut" in match.turn.flags else None

    def _why_unknown(
        self, root: Root, messages: Messages, match: Match, known: Sequence[tuple[Node, bool]], answers: Sequence[int]
    ) -> Reason:
        """Why the assistant messages at `answers`, counted from the match, are none of ours at their places."""
        if not self._turns:
            return Reason.FIRST_TURN
        elsewhere = matching.find(self.tree, messages, None, self._policy, self._order)
        if elsewhere.turn is not None and elsewhere.length > match.length:
            return _changed(elsewhere.turn.root, root)
        asked, ended = [(match.node, True), *known][answers[0]] if answers[0] <= len(known) else (match.node, False)
        if ended and _answered(asked, root):
            return Reason.HISTORY_EDITED
        rest = messages[match.length :]
        ours = ((at, self._given(rest[at])) for at in answers)
        at, turns = next(((at, turns) for at, turns in ours if turns), (0, ()))
        if not turns:
            return Reason.FOREIGN_ASSISTANT
        left_out = any(self._is_shortened(match, rest[:at], turn) for turn in turns[-_TURNS_ASKED:])
        return Reason.HISTORY_SHORTENED if left_out else Reason.HISTORY_EDITED

    def _is_shortened(self, match: Match, rest: Messages, turn: Turn) -> bool:
        """Whether what comes after the match, up to a turn's answer, is what stood before it with some left out."""
        others = [message for message in rest if message.role != "assistant"]
        if not turn.asked.is_below(match.node) or None in map(self.tree.numbers.get, map(identity, others)):
            return False
        path = map(_meaning, self.tree.path(turn.asked)[match.length :])
        return all(_meaning(message) in path for message in rest)  # each search goes on where the last one ended

    def _add(self, turn: Turn, match: Match, messages: Messages, like: Turn | None) -> None:
        asked = self.tree.link(match.node, messages[match.length :], turn, like)
        turn.node.way = asked, turn.node.run
        turn.node.turn, turn.node.replay = turn, Replay(identity(turn.message))
        self._order[turn] = len(self._turns)
        self._turns.append(turn)
        self._latest[turn.root] = turn
        for text in astuple(turn.root):
            self._texts.setdefault(text, text)
        for replayed, at in match.way():
            if at.fresh:
                replayed.node.replay = Replay(identity(messages[at.length - 1]), at.added)
        if turn.status == "aborted":
            return
        asked.answers.append(turn)
        self._gists.setdefault(gist(turn.message), []).append(turn)
        self._by_call |= {call.id: turn for call in turn.message.tool_calls}
        self._own_ids |= {call.id: call.own_id for call in turn.message.tool_calls if call.own_id is not None}


def _changed(before: Root, now: Root) -> Reason:
    """The first difference of two roots."""
    if before.model != now.model:
        return Reason.MODEL_CHANGED
    if before.template_kwargs != now.template_kwargs:
        return Reason.TEMPLATE_KWARGS_CHANGED
    return Reason.TOOLS_CHANGED if before.tools != now.tools else Reason.SYSTEM_CHANGED


def _answered(node: Node, root: Root) -> bool:
    return any(turn.root == root for turn in node.answers)


def _meaning(message: Message) -> object:
    return gist(message) if message.role == "assistant" else identity(message)


def _translated(message: Message, own: Mapping[str, str]) -> Message:
    calls = tuple(replace(call, id=own.get(call.id, call.id)) for call in message.tool_calls)
    answered = message.tool_call_id
    return replace(message, tool_calls=calls, tool_call_id=own.get(answered, answered) if answered else answered)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PendingTurn:
    """A prepared turn, waiting for its completion."""

    ledger: Ledger
    request: TurnRequest
    root: Root
    match: Match
    """How far the history is known."""
    system: Messages
    """The leading system messages."""
    messages: Messages
    """The others."""
    like: Turn | None
    """A turn whose prompt this one's may repeat."""
    unbridgeable: Reason | None
    """Why the prompt must be rendered, where the history alone tells; ``None`` when a bridge may be tried."""

    @property
    def parent(self) -> Turn | None:
        """The turn that the history continues."""
        return self.match.turn

    @property
    def differences(self) -> Mapping[str, Difference]:
        """How the replayed history differs from the record."""
        return self.match.differences()

    def extension(self) -> list[Message]:
        """The new messages, as a bridge must show them to the model."""
        return self._in_own_words(self.messages[self.match.length :])

    def answered(self) -> list[Message]:
        """The history for a render, up to and with the answer that the extension follows."""
        return self._in_own_words([*self.system, *self.match.recorded(self.messages[: self.match.length])])

    def history(self) -> list[Message]:
        """The whole history for a full render: our own answers as they were recorded."""
        return self._in_own_words([*self.system, *self.match.recorded(self.messages)])

    def _in_own_words(self, messages: Messages) -> list[Message]:
        """The messages with the model's own tool-call ids: it must not see ids that it did not write."""
        own = self.ledger._own_ids
        return [_translated(message, own) for message in messages] if own else list(messages)

    def bridged(self, ids: list[int], new: "array[int]", parent: Turn) -> Prompt:
        """A prompt of the parent's ids, its completion, and ids that are `new`."""
        return Prompt(ids, parent.prompt.extended(parent.completion.ids, new), parent, None)

    def rendered(self, ids: list[int], reason: Reason) -> Prompt:
        """A prompt that was rendered in full, for `reason`."""
        return Prompt(ids, rope(ids, like=self.like.sequence if self.like else None), None, reason)

    def seal(
        self,
        turn_id: str,
        prompt: Prompt,
        completion: Completion,
        answer: Answer,
        origin: Origin,
        *,
        sampling: SamplingRecord,
        ended_by: EndedBy,
    ) -> Turn:
        """The record of this turn, not yet part of the ledger.

        Raises:
            LedgerError: the prompt claims a base other than the parent, or is no longer than its base.
        """
        base = prompt.base
        known = base.prompt.length + len(base.completion.ids) if base else 0
        if base not in (None, self.parent) or len(prompt.ids) <= known or prompt.stored.length != len(prompt.ids):
            raise LedgerError(f"a prompt of {len(prompt.ids)} ids does not extend the {known} ids of its base")
        return Turn(
            id=turn_id,
            root=self.root,
            parent=self.parent,
            base=base,
            prompt=prompt.stored,
            completion=completion,
            message=answer.message,
            reason=prompt.reason,
            differences=self.differences,
            flags=answer.flags,
            sampling=sampling,
            ended_by=ended_by,
            origin=origin,
            labels=self.request.labels,
            node=answer_node(),
        )

    def commit(self, turn: Turn) -> None:
        """Make a sealed turn visible."""
        self.ledger._add(turn, self.match, self.messages, self.like)
