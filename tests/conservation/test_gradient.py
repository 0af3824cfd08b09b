"""What a trainer computes from rows is what it would compute from every call by itself."""

from collections.abc import Sequence
from functools import partial
from random import Random

import numpy as np
import pytest

from gateway.core.ledger import Ledger
from gateway.core.rows import Rollout
from gateway.core.selection import Selection, Shared
from gateway.core.turn import Turn
from gateway.core.types import Labels
from gateway.wire.rows import row_object
from tests.conservation.policy import Floats, TinyPolicy
from tests.core.agents import Agents
from tests.core.present import session_now
from tests.core.toy import Talk, user

REWARDS = (1.0, -0.25)
MOVES = (Agents.start, Agents.extend, Agents.extend, Agents.extend, Agents.resample, Agents.falsify, Agents.abort)


def planned() -> list[Ledger]:
    """A session with branches, a full render on the way and a compaction, and one of a sub-agent."""
    talk, other = Talk(), Talk()
    first = talk.take(user("Count the letters of 1789."))
    asked = [user("Count the letters of 1789."), first.message, user("And those of 1790?")]
    second = talk.take(*asked)
    for question in "abc":
        talk.take(*asked, second.message, user(question))
    talk.take(*asked)  # a resample
    talk.take(*asked, second.message, user("judge this"), labels=Labels(train=False))
    talk.take(*asked, second.message, user("what for?"), status="aborted")
    talk.renderer.declines = True
    asked += [second.message, user("d")]
    rendered = talk.take(*asked)
    talk.renderer.declines = False
    talk.take(*asked, rendered.message, user("e"))
    summed = talk.take(user("So far: letters were counted."))
    talk.take(user("So far: letters were counted."), summed.message, user("Go on."))
    found = other.take(user("Look up 1789."))
    other.take(user("Look up 1789."), found.message, user("In which archive?"))
    assert {turn.how for turn in talk.ledger.turns if turn.parent} == {"bridged", "rendered"}
    return [talk.ledger, other.ledger]


def at_random(seed: int) -> list[Ledger]:
    """Sessions that became whatever they did."""
    rng, ledgers = Random(seed), []
    for _ in REWARDS:
        agents = Agents(varied=True)
        agents.start(rng)
        for _ in range(12):
            rng.choice(MOVES)(agents, rng)
        ledgers.append(agents.ledger)
    return ledgers


def trained(ledgers: Sequence[Ledger]) -> list[tuple[Turn, float]]:
    """The calls that are to be trained on, each with the reward of its session."""
    return [
        (turn, reward)
        for ledger, reward in zip(ledgers, REWARDS, strict=True)
        for turn in ledger.turns
        if turn.status == "complete" and turn.labels.train
    ]


def rows_of(ledgers: Sequence[Ledger], shared: Shared):
    """The rows of the rollout that these sessions make, as they are written."""
    sessions = [
        session_now(ledger, {"session_id": f"s{number}", "reward": reward})
        for number, (ledger, reward) in enumerate(zip(ledgers, REWARDS, strict=True))
    ]
    return [row_object(row) for row in Rollout(sessions, Selection(shared=shared))]


class Trainer:
    """A policy over the ids that these sessions hold."""

    def __init__(self, ledgers: Sequence[Ledger]) -> None:
        ids = {token_id for ledger in ledgers for turn in ledger.turns for token_id in turn.sequence.ids()}
        self._numbers = {token_id: number for number, token_id in enumerate(sorted(ids))}
        self._policy = TinyPolicy(len(ids))
        self._ledgers = ledgers

    def _of(self, ids, weights) -> Floats:
        return self._policy.gradient([self._numbers[token_id] for token_id in ids], np.array(weights))

    def by_row(self, shared: Shared) -> Floats:
        """One forward pass for each row."""
        weight = "loss_weights" if shared == "split" else "loss_mask"
        rows = rows_of(self._ledgers, shared)
        return np.sum([row["reward"] * self._of(row["token_ids"], row[weight]) for row in rows], axis=0)

    def by_call(self) -> Floats:
        """One for each call: its prompt, and what was sampled."""
        calls = [
            reward * self._of(turn.sequence.ids(), [0] * turn.prompt.length + [1] * len(turn.completion.ids))
            for turn, reward in trained(self._ledgers)
        ]
        return np.sum(calls, axis=0)


def error(found: Floats, wanted: Floats) -> float:
    """The relative error of a gradient."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


sessions = pytest.mark.parametrize("begun", [planned, *(partial(at_random, seed) for seed in range(4))])


def test_the_gradient_of_the_policy_is_that_of_finite_differences():
    """So that equal gradients are not equally wrong; and what was long ago still counts."""
    policy, ids, weights = TinyPolicy(5, width=3), [0, 3, 1, 4, 4, 2], np.array([0, 1.0, 0, 0.5, 1.0, 1.0])
    found, step = policy.gradient(ids, weights), 1e-6
    for at in range(len(policy.parameters)):
        policy.parameters[at] += step
        above = policy.likelihood(ids, weights)
        policy.parameters[at] -= 2 * step
        below = policy.likelihood(ids, weights)
        policy.parameters[at] += step
        assert (above - below) / (2 * step) == pytest.approx(found[at], abs=1e-7)
    last = np.array([0, 0, 0, 0, 0, 1.0])
    assert policy.likelihood(ids, last) != policy.likelihood([2, *ids[1:]], last)


@sessions
@pytest.mark.parametrize("shared", ["once", "split"])
def test_the_gradient_of_rows_is_that_of_calls(begun, shared):
    """Each sampled token counts once, in the context in which it was sampled, with its session's reward."""
    trainer = Trainer(begun())

    assert error(trainer.by_row(shared), trainer.by_call()) < 1e-4


def test_turns_that_are_trained_in_each_of_their_rows_weigh_more():
    """What the equality above would miss, if it could miss anything."""
    trainer = Trainer(planned())

    assert error(trainer.by_row("duplicate"), trainer.by_call()) > 0.01


@sessions
def test_the_weights_of_a_rollout_add_up_to_its_sampled_tokens(begun):
    """Of those that are trained; the rows say how many that are."""
    ledgers = begun()
    sampled = sum(len(turn.completion.ids) for turn, _ in trained(ledgers))
    rows = rows_of(ledgers, "split")

    assert sum(sum(row["loss_weights"]) for row in rows) == pytest.approx(sampled, rel=1e-6)
    assert {row["rollout_trainable_tokens"] for row in rows} == {sampled}
