"""What is known of deliveries, now and earlier."""

from gateway.core.deliveries import Deliveries
from tests.core.toy import Talk, user


def test_what_has_arrived_once_has_arrived():
    """An answer that was lost may be replayed; the old socket's end says nothing then."""
    turn, deliveries = Talk().take(user("a")), Deliveries()
    assert deliveries.of(turn) is None
    for told, delivered in ((False, False), (True, True), (False, True)):
        deliveries.note(turn, delivered=told)
        assert deliveries.of(turn) is delivered


def test_what_was_known_earlier_can_be_told_later():
    """And nothing is kept of words that say nothing new."""
    talk, deliveries = Talk(), Deliveries()
    one, two = talk.take(user("a")), talk.take(user("b"))
    for turn, delivered in ((one, False), (one, False), (two, True), (one, True), (one, True)):
        deliveries.note(turn, delivered=delivered)

    assert len(deliveries) == 3
    assert deliveries.known(1) == {one: False}
    assert deliveries.known(2) == {one: False, two: True}
    assert deliveries.known(3) == {one: True, two: True}
