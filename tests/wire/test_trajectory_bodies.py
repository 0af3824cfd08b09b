"""The parameters of rows are described as they are read."""

import pytest

from gateway.errors import BadRequest
from gateway.wire.rows_query import decode_query
from tests.wire.bodies import description, differing_parameters


@pytest.mark.parametrize(
    ("path", "others"), [("/trajectories", ("status", "group_id")), ("/sessions/{sid}/trajectories", ())]
)
def test_what_rows_are_asked_for_is_described_as_it_is_read(path: str, others: tuple[str, ...]):
    """Each parameter alone; which sessions' rows they are is not read here."""
    found = differing_parameters("get", path, lambda given: decode_query(given.items(), others), frozenset(others))
    assert list(found) == []


def test_every_parameter_is_described():
    """Those that the refusal of another names."""
    parameters = description()["paths"]["/trajectories"]["get"]["parameters"]
    with pytest.raises(BadRequest, match="these are") as refused:
        decode_query([("leafs", "all")], ("status", "group_id"))
    named = str(refused.value).partition("these are ")[2].split(", ")
    assert sorted(parameter["name"] for parameter in parameters) == named
