"""Why a turn is not to be trained on."""

import pytest

from gateway.core.fate import Fate
from gateway.core.selection import Selection
from gateway.core.types import Labels
from tests.core.toy import Talk, user

DELIVERED, LOST, UNKNOWN = Fate(True, False), Fate(False, False), Fate(None, False)
DROPPED = Fate(True, True)


@pytest.mark.parametrize(
    ("selection", "fate", "train", "why"),
    [
        (Selection(), DELIVERED, True, None),
        (Selection(), UNKNOWN, True, None),
        (Selection(), DELIVERED, False, "train_false"),
        (Selection(), LOST, False, "train_false"),
        (Selection(), LOST, True, "undelivered"),
        (Selection(), Fate(False, False, continued=True), True, None),
        (Selection(), Fate(False, True), True, "undelivered"),
        (Selection(), DROPPED, True, None),
        (Selection(dropped="exclude"), DROPPED, True, "dropped"),
        (Selection(dropped="exclude"), DELIVERED, True, None),
        (Selection(distributions=frozenset(["exact"])), DELIVERED, True, None),
        (Selection(distributions=frozenset(["greedy", "truncated"])), DELIVERED, True, "distribution"),
        (Selection(dropped="exclude", distributions=frozenset(["greedy"])), DROPPED, True, "dropped"),
    ],
)
def test_a_turn_is_left_out_for_the_first_reason_that_holds(selection, fate, train, why):
    """What was lost on its way counts once the harness has gone on from it: somebody has read it."""
    assert selection.why_not(Talk().take(user("a"), labels=Labels(train=train)), fate) == why


def test_a_selection_is_told_in_the_words_in_which_it_is_asked_for():
    """And the same whatever the order of words."""
    assert Selection().told() == {
        "leaves": "all",
        "include": [],
        "dropped": "include",
        "distribution": None,
        "max_staleness": None,
        "shared": "once",
    }
    assert Selection("latest", True, "exclude", frozenset(["truncated", "exact"]), 3, "split").told() == {
        "leaves": "latest",
        "include": ["aborted"],
        "dropped": "exclude",
        "distribution": ["exact", "truncated"],
        "max_staleness": 3,
        "shared": "split",
    }
