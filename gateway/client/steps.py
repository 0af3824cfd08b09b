"""Several calls that belong together, told apart from who makes them.

A generator yields each call and is sent what it came to, so that both clients go through the same steps.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from gateway.client.calls import Call, Page

Value = TypeVar("Value")
Item = TypeVar("Item")
Steps = Generator[Call[Any], Any, Value]


def whole(page: Callable[[str | None], Call[Page[Item]]]) -> Steps[list[Item]]:
    """All items of a list; `page` is the call for the page at a cursor."""
    items: list[Item] = []
    cursor = None
    while True:
        told = yield page(cursor)
        items += told["data"]
        cursor = told["next"]
        if cursor is None:
            return items


@dataclass(frozen=True, slots=True)
class Ended:
    """The steps are over."""

    value: Any


def following(steps: Steps[Any], result: object = None, failure: Exception | None = None) -> Call[Any] | Ended:
    """The call to make next, after `result` or `failure` of the one before."""
    try:
        return steps.throw(failure) if failure else steps.send(result)
    except StopIteration as end:
        return Ended(end.value)
