"""The ledger, the prompts and the rows against a record so naive that it must be right."""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.core.agents import Agents
from tests.core.invariants import audit

MOST_EXAMPLES = 2000
"""Of 25 steps each, every run others: by far the dearest property, it would be most of `make check-deep` at 5,000."""

CHOICES = st.randoms(use_true_random=False)


class LedgerMachine(RuleBasedStateMachine):
    """Whatever agents, engines and renderers do, the promises of the architecture hold after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.agents = Agents()

    @invariant()
    def every_sampled_id_is_trained_once_in_its_own_context(self):
        audit(self.agents.ledger, self.agents.samples)

    @rule(rng=CHOICES)
    def start(self, rng: Random):
        self.agents.start(rng)

    @rule(rng=CHOICES)
    def extend(self, rng: Random):
        self.agents.extend(rng)

    @rule(rng=CHOICES)
    def resample(self, rng: Random):
        self.agents.resample(rng)

    @rule(rng=CHOICES)
    def rewrite(self, rng: Random):
        self.agents.rewrite(rng)

    @rule(rng=CHOICES)
    def falsify(self, rng: Random):
        self.agents.falsify(rng)

    @rule(rng=CHOICES)
    def inject(self, rng: Random):
        self.agents.inject(rng)

    @rule(rng=CHOICES)
    def change_above(self, rng: Random):
        self.agents.change_above(rng)

    @rule(rng=CHOICES)
    def misrender(self, rng: Random):
        self.agents.misrender(rng)

    @rule(rng=CHOICES)
    def abort(self, rng: Random):
        self.agents.abort(rng)

    @rule(rng=CHOICES)
    def abandon(self, rng: Random):
        self.agents.abandon(rng)

    @rule(rng=CHOICES)
    def crowd(self, rng: Random):
        self.agents.crowd(rng)


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(stateful_step_count=25, max_examples=min(settings().max_examples, MOST_EXAMPLES))
