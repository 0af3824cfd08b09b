"""What might have been sampled instead is told with logprobs that can be, or not at all."""

import pytest

from gateway.core.alternatives import Alternatives
from gateway.core.types import float32s, token_ids
from gateway.errors import LedgerError


def beside(width=2, ids=(1, 9, 2, 8, 3, 7), logprobs=(-1.0, -0.25, -0.5, -2.0, 0.0, -9999.0)):
    return Alternatives(width, token_ids(ids), float32s(logprobs))


def test_alternatives_are_read_by_position_with_the_most_likely_first():
    """Whatever the engine's order is; equally likely ones keep it."""
    assert [(9, -0.25), (1, -1.0)] == beside().most_likely(0, 2)
    assert [(2, -0.5), (8, -2.0)] == beside().most_likely(1, 20)
    assert [(3, 0.0)] == beside().most_likely(2, 1)
    assert [(6, -0.5), (5, -0.5), (4, -1.0)] == beside(3, (4, 6, 5), (-1.0, -0.5, -0.5)).most_likely(0, 3)


@pytest.mark.parametrize(
    ("width", "ids", "logprobs"),
    [
        (0, (), ()),
        (-1, (), ()),
        (1, (1, 2), (-1.0,)),
        (1, (1,), (-1.0, -1.0)),
        (1, (1,), (0.5,)),
        (1, (1,), (float("nan"),)),
        (1, (1,), (float("-inf"),)),
    ],
)
def test_alternatives_without_a_finite_logprob_at_or_below_zero_are_refused(width, ids, logprobs):
    """What nothing could have sampled has the engine's finite word for it."""
    with pytest.raises(LedgerError):
        beside(width, ids, logprobs)


def test_a_part_has_the_rows_of_some_ids():
    """Rows of two."""
    assert beside().part(1, 2) == beside(2, (2, 8), (-0.5, -2.0))
