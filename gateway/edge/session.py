"""One session of this gateway, and the calls that take turns in it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter

from gateway.core.budget import Limit, Spent
from gateway.core.canon import Policy
from gateway.core.ledger import Ledger
from gateway.core.pool import Affinity
from gateway.core.salt import Start
from gateway.core.terms import Terms
from gateway.core.types import UNKNOWN_VERSION, JsonObject, TurnRequest
from gateway.edge.feed import Feed
from gateway.edge.phases import Phases
from gateway.wire import chat
from gateway.wire.sessions import Finish, SessionState


@dataclass(slots=True)
class TurnCall:
    """One call being taken: a turn, or as many siblings as it asks for."""

    session_id: str
    request: TurnRequest
    turn_ids: tuple[str, ...]
    """One for each answer that is asked for."""
    request_id: str
    dialect: str = chat.NAME
    """The name of the one that it was made in."""
    sealed: bool = False
    """Set when the turns are being recorded: from then on the call is no longer cancelled."""
    anonymous: bool = False
    """Whether the client named no session."""
    failed: bool = False
    """Set when it is known that no turn will be complete, though aborted ones may still be recorded."""
    tell: Callable[[BaseException], None] = lambda _error: None
    """Is told why it has failed, as soon as that is known."""
    is_alone: Callable[[], bool] = lambda: False
    """Whether nobody waits for its turns any more; for the task that takes them."""
    version: str = UNKNOWN_VERSION
    """The policy version when it came."""
    rank_number: int | None = None
    """The data-parallel rank that the caller insists on."""
    discarded_tokens: int = 0
    """Sampled for answers that were made anew, and not recorded yet."""
    arrived_s: float = field(default_factory=perf_counter)
    """When it came, by `perf_counter`."""
    phases: Phases = field(default_factory=Phases)
    """What its steps took."""
    feed: Feed | None = None
    """Takes what the answers say while they are sampled, where they are streamed."""

    def fail(self, error: BaseException) -> None:
        """There will be no answer but `error`, whatever is still to be recorded."""
        self.sealed = self.failed = True
        self.tell(error)


@dataclass(slots=True, eq=False)
class Held:
    """One call under way, and the task that it runs in."""

    call: TurnCall
    task: "asyncio.Task[object]"
    evicted: bool = False


class Session:
    """One session: its ledger, its terms, and the engine rank that holds its prefix."""

    def __init__(
        self, session_id: str, terms: Terms | None = None, *, policy: Policy = "canonical", created_s: float = 0.0
    ) -> None:
        self.id = session_id
        self.terms = terms or Terms()
        self.created_s = created_s
        self.number = 0
        """Its place among all sessions, in the order in which they came to exist; 0 before."""
        self.start = Start()
        """At which policy version it, or its group, began."""
        self.ledger = Ledger(policy)
        self.affinity = Affinity(session_id)
        """The rank whose cache holds its prefix: the next turn goes there while that takes turns."""
        self.kept = False
        """Whether it exists without a turn, because somebody made or finished it."""
        self.anonymous = False
        """Whether it was minted for a client that named none, and may be found by prefix."""
        self.finished = False
        self.reward: float | None = None
        self.of_rows = self._of_rows()
        """What each of its rows says of it. One value, since they are made in a thread while it is finished."""
        self.deleted = False
        self.deletion = asyncio.Lock()
        """Held by the one deletion that speaks to the store."""
        self.held: list[Held] = []
        self._spent = Spent()
        self._counted = 0

    @property
    def exists(self) -> bool:
        """Whether others may see it."""
        return not self.deleted and (self.kept or bool(self.ledger.turns))

    @property
    def ended(self) -> bool:
        """Whether there will be no more of it: it is finished, and no call is under way."""
        return self.finished and not self.held

    @property
    def rollout_id(self) -> str:
        """The rollout that it belongs to: its own, unless somebody said otherwise."""
        return self.terms.rollout_id or self.id

    @property
    def turns_in_flight(self) -> int:
        """Turns under way, those included that have failed and are yet to be recorded: an n-fold request takes n."""
        return sum(held.call.request.n for held in self.held)

    @property
    def turns_to_come(self) -> int:
        """Of the turns in flight those that may still become complete."""
        return sum(held.call.request.n for held in self.held if not held.call.failed)

    def spent(self, *, but: TurnCall | None = None) -> Spent:
        """What has been used up so far, by what calls under way have discarded, too, save one. Each turn is looked at
        once.
        """
        for turn in self.ledger.turns[self._counted :]:
            done, spent = turn.status == "complete", self._spent
            self._spent = Spent(
                spent.turns + done,
                spent.aborted_turns + (not done),
                spent.prompt_tokens + turn.prompt_length,
                spent.completion_tokens + len(turn.completion.ids),
            )
            self._counted += 1
        discarded_tokens = sum(held.call.discarded_tokens for held in self.held if held.call is not but)
        return replace(self._spent, completion_tokens=self._spent.completion_tokens + discarded_tokens)

    def limit(self, call: TurnCall, *, model_tokens: int, prompt_tokens: int, discarded_tokens: int = 0) -> Limit:
        """How long one answer of a call may be, of which so much was discarded: that is off its own share.

        See `Budget.limit`.
        """
        budget, asked, n, spent = (
            self.terms.budget,
            call.request.sampling.max_tokens,
            call.request.n,
            self.spent(but=call),
        )
        spent = replace(spent, completion_tokens=spent.completion_tokens + n * discarded_tokens)
        return budget.limit(spent, model_tokens=model_tokens, prompt_tokens=prompt_tokens, asked=asked, n=n)

    def finish(self, finish: Finish) -> None:
        """Take no more turns; those in flight still end. A later finish may change the reward."""
        self.finished = self.kept = True
        self.reward = self.reward if finish.reward is None else finish.reward
        self.terms = replace(self.terms, metadata=finish.metadata)
        self.of_rows = self._of_rows()

    def _of_rows(self) -> JsonObject:
        return {
            "session_id": self.id,
            "group_id": self.terms.group_id,
            "rollout_id": self.rollout_id,
            "reward": None if self.reward is None else float(self.reward),
            "metadata": self.terms.metadata,
        }

    def state(self) -> SessionState:
        """What others are shown of it."""
        return SessionState(
            session_id=self.id,
            terms=self.terms,
            spent=self.spent(),
            turns_in_flight=self.turns_in_flight,
            finished=self.finished,
            reward=self.reward,
            created_s=self.created_s,
        )
