"""A session's forest of turns.

A turn is one sampled completion. Its parent is the turn whose answer is the last one of ours in the history
that the agent sent; turns without a parent start a branch. The forest only grows: nothing is edited and
nothing erased, so a rewritten history, a retry or a sub-agent is simply another branch.

Taking a turn has two phases. `Ledger.prepare` finds the parent and changes nothing. After the engine has
answered, `PendingTurn.seal` makes the record, which may then be stored, and `PendingTurn.commit` makes it
visible: the one mutation, synchronous, so that calls in one session need no lock. Whoever stops in between
leaves no trace.

Mutable state: the attributes of `Ledger`, all written by `Ledger._add` only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from gateway.core.canon import EMPTY, Root, accepted_differences, extend_digest, gist, root_of, split_system
from gateway.core.turn import Prompt, Turn
from gateway.core.types import Answer, Completion, Message, Messages, Origin, TurnRequest, token_ids
from gateway.errors import LedgerError

_LINEAGES_ASKED = 8
"""How many other lineages are asked why a history is unknown: asking all cost a session whose system prompt
changes each turn half a second a turn after 400 turns."""


@dataclass(slots=True)
class _Anchor:
    """What followed one point of the forest: a turn, or the beginning of a lineage."""

    turns: dict[bytes, list[Turn]] = field(default_factory=dict)
    """Complete turns, by the digest of their new messages."""
    foreign: set[bytes] = field(default_factory=set)
    """Digests of the runs that end in an assistant message which no engine sampled here."""


@dataclass(frozen=True, slots=True)
class _Match:
    """How far a history is known: after `length` messages stands `turn`'s answer, or the beginning."""

    turn: Turn | None = None
    length: int = 0
    differences: frozenset[str] = frozenset()


class Ledger:
    """The turns of one session, in the order in which they were recorded."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self._delivered: dict[Turn, bool] = {}
        self._anchors: dict[tuple[Root, Turn | None], _Anchor] = {}
        self._said: set[bytes] = set()
        # The gists of our answers.
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

    def known_turns(self, messages: Messages) -> tuple[int, int]:
        """How well a history is known here, whatever stands above it: the deepest path of our own turns that it
        continues, as the number of its turns, and how many of their calls came back under our ids."""
        _, rest = split_system(messages)
        best = (0, 0)
        for root in {root for root, turn in self._anchors if turn is None}:
            turn = self._match(root, rest).turn
            path = turn.branch() if turn else []
            calls = sum(len(turn.message.tool_calls) for turn in path)
            best = max(best, (len(path), calls))
        return best

    def prepare(self, request: TurnRequest) -> "PendingTurn":
        """Find the longest known path that `request` continues; changes nothing."""
        root = root_of(request)
        _, messages = split_system(request.messages)
        match = self._match(root, messages)
        new = messages[match.length :] if match.turn else request.messages
        reason = self._why_not(root, messages, match)
        return PendingTurn(self, request, root, match.turn, tuple(new), match.differences, reason)

    def _match(self, root: Root, messages: Messages) -> _Match:
        """Walk all branches of `root` at once, message by message, and keep the deepest answer met.

        A state is a match so far and the digest of the messages since. Costs O(messages) digests; states
        multiply only where answers to one prompt are alike.
        """
        best = _Match()
        states = [(best, EMPTY)]
        for index, message in enumerate(messages):
            grown: list[tuple[_Match, bytes]] = []
            matched: list[_Match] = []
            for match, digest in states:
                anchor = self._anchors.get((root, match.turn))
                if anchor is None:
                    continue
                longer = extend_digest(digest, message)
                if message.role != "assistant" or longer in anchor.foreign:
                    grown.append((match, longer))
                if message.role == "assistant":
                    for turn in anchor.turns.get(digest, ()):
                        kinds = accepted_differences(turn.message, message)
                        if kinds is not None:
                            matched.append(_Match(turn, index + 1, match.differences.union(kinds)))
            if matched:
                best = self._preferred(matched)
            states = [*((match, EMPTY) for match in matched), *grown]
            if not states:
                break
        return best

    def _why_not(self, root: Root, messages: Messages, match: _Match) -> str | None:
        """Why this history cannot extend recorded ids, as far as the forest can tell; ``None`` if it may."""
        rest = messages[match.length :]
        answer = next((i for i, message in enumerate(rest) if message.role == "assistant"), None)
        if answer is None:
            if match.turn is None:
                return "first_turn"
            if not rest:
                return "no_new_messages"
            return "stop_cut" if "stop_cut" in match.turn.flags else None
        if not self._turns:
            return "first_turn"
        return self._changed_above(root, messages, match) or self._why_unknown(root, match, rest[:answer], rest[answer])

    def _changed_above(self, root: Root, messages: Messages, match: _Match) -> str | None:
        """What differs above the messages from a lineage that knows more of them, among the latest."""
        lineages = [other for other, turn in self._anchors if turn is None and other != root][-_LINEAGES_ASKED:]
        known = [(self._match(other, messages).length, other) for other in lineages]
        length, deepest = max(known, key=itemgetter(0), default=(0, root))
        changed = (part for part in ("model", "template_kwargs", "tools", "system") if length > match.length)
        return next((f"{part}_changed" for part in changed if getattr(deepest, part) != getattr(root, part)), None)

    def _why_unknown(self, root: Root, match: _Match, before: Messages, answer: Message) -> str:
        """Whose words an unmatched assistant message are: ours in another place, ours rewritten, or foreign."""
        run = EMPTY
        for message in before:
            run = extend_digest(run, message)
        anchor = self._anchors.get((root, match.turn))
        rewritten = anchor is not None and run in anchor.turns
        return "history_edited" if rewritten or gist(answer) in self._said else "foreign_assistant"

    def _preferred(self, matched: Sequence[_Match]) -> _Match:
        """Among equal answers: the one replayed most exactly, else the latest, which is then audited."""
        fewest = min(len(match.differences) for match in matched)
        alike = [match for match in matched if len(match.differences) == fewest]
        if len(alike) == 1:
            return alike[0]
        order: dict[Turn | None, int] = {turn: number for number, turn in enumerate(self._turns)}
        latest = max(alike, key=lambda match: order[match.turn])
        return replace(latest, differences=latest.differences | {"ambiguous_sibling"})

    def _add(self, turn: Turn) -> None:
        self._turns.append(turn)
        if turn.status == "aborted":
            return
        anchor = self._anchors.setdefault((turn.root, turn.parent), _Anchor())
        self._anchors.setdefault((turn.root, turn), _Anchor())
        messages = turn.new_messages if turn.parent else split_system(turn.new_messages)[1]
        digest = EMPTY
        for message in messages:
            digest = extend_digest(digest, message)
            if message.role == "assistant":
                anchor.foreign.add(digest)
        anchor.turns.setdefault(digest, []).append(turn)
        self._said.add(gist(turn.message))
        self._own_ids |= {call.id: call.own_id for call in turn.message.tool_calls if call.own_id is not None}


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
    new_messages: tuple[Message, ...]
    differences: frozenset[str]
    unbridgeable: str | None
    """Why the prompt must be rendered, where the history alone tells; ``None`` when a bridge may be tried."""

    def extension(self) -> list[Message]:
        """The new messages, as a bridge must show them to the model."""
        return self._in_own_words(self.new_messages)

    def history(self) -> list[Message]:
        """The whole history for a full render: our own answers as they were recorded."""
        turns = self.parent.branch() if self.parent else []
        recorded = [message for turn in turns for message in (*turn.new_messages, turn.message)]
        return self._in_own_words([*recorded, *self.new_messages])

    def _in_own_words(self, messages: Messages) -> list[Message]:
        """The messages with the model's own tool-call ids: it must not see ids that it did not write."""
        own = self.ledger._own_ids
        return [_translated(message, own) for message in messages] if own else list(messages)

    def seal(self, turn_id: str, prompt: Prompt, completion: Completion, answer: Answer, origin: Origin) -> Turn:
        """The record of this turn, not yet part of the ledger.

        Raises:
            LedgerError: the prompt claims a base other than the parent, or is no longer than its base.
        """
        base = prompt.base
        known = base.prompt_length + len(base.completion.ids) if base else 0
        if base not in (None, self.parent) or len(prompt.ids) <= known:
            raise LedgerError(f"a prompt of {len(prompt.ids)} ids does not extend the {known} ids of its base")
        return Turn(
            id=turn_id,
            root=self.root,
            parent=self.parent,
            base=base,
            new_messages=self.new_messages,
            prompt_delta=token_ids(prompt.ids[known:]),
            prompt_length=len(prompt.ids),
            completion=completion,
            message=answer.message,
            reason=prompt.reason,
            differences=self.differences,
            flags=answer.flags,
            origin=origin,
            labels=self.request.labels,
        )

    def commit(self, turn: Turn) -> None:
        """Make a sealed turn visible."""
        self.ledger._add(turn)
