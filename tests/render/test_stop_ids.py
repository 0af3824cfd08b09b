"""Where an answer ends; what ends one is shown with each backend that has to find it out."""

import pytest

from gateway.render.stop_ids import length_to_stop


@pytest.mark.parametrize(("ids", "length"), [([], 0), ([1, 2], 2), ([9, 1], 0), ([1, 8, 9], 1)])
def test_an_answer_is_what_comes_before_the_first_stop_id(ids, length):
    assert length_to_stop(ids, {8, 9}) == length
