"""Whatever a session became, and whatever is selected of it: each turn is trained as it should, or says why not."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.selection import Selection
from gateway.core.versions import Versions
from tests.core.agents import Agents
from tests.core.invariants import audit_selection

MOVES = (
    Agents.start,
    Agents.extend,
    Agents.extend,
    Agents.resample,
    Agents.rewrite,
    Agents.misrender,
    Agents.abort,
    Agents.crowd,
)
SELECTIONS = st.builds(
    Selection,
    leaves=st.sampled_from(["all", "latest"]),
    include_aborted=st.booleans(),
    dropped=st.sampled_from(["include", "exclude"]),
    distributions=st.none() | st.just(frozenset(["exact"])),
    max_staleness=st.none() | st.integers(0, 3),
    shared=st.sampled_from(["once", "split", "duplicate"]),
)


@given(st.randoms(use_true_random=False), st.integers(1, 8), st.lists(SELECTIONS, min_size=2, max_size=2))
def test_every_turn_is_trained_as_selected_or_left_out_for_a_reason(rng: Random, moves, selections):
    """`once`: in one row; `split`: with weights that add up to one; `duplicate`: in every row that holds it."""
    agents = Agents(varied=True)
    versions = Versions()
    for _ in range(moves):
        rng.choice(MOVES)(agents, rng)
    for turn in agents.ledger.turns:
        versions.note(turn.completion.spans)
        for _ in range(rng.randrange(3)):
            agents.ledger.deliveries.note(turn, delivered=rng.choice([True, False]))
    for selection in selections:
        audit_selection(agents.ledger, agents.samples, selection, versions.fresh(selection.max_staleness))
