"""The table of operations: what each route takes and answers."""

import pytest

from gateway.wire.operations import OPERATIONS, Operation


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
def test_an_operation_answers_something_or_says_that_it_does_not(operation: Operation):
    """204 has no body, and everything else has one."""
    assert (operation.statuses == (204,)) == (operation.answer is None and operation.media is None)


def test_only_get_has_no_body():
    """DELETE of an engine may have one; what is asked for by GET stands in the URL."""
    assert [where for where, operation in OPERATIONS.items() if where[0] == "GET" and operation.body] == []
