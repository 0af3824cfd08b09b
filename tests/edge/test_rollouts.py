"""Rollouts stand in orders in which a reader finds what comes later behind what it has read."""

from itertools import count
from random import Random

from gateway.core.terms import Terms
from gateway.edge.rollouts import Members, Rollouts, Status
from gateway.edge.session import Session


def found(rollouts: Rollouts, status: Status, place: int = 0) -> list[Members]:
    """Those behind a place."""
    return list(rollouts.after(status, place))


def test_whatever_happens_each_rollout_stands_once_in_the_order_of_its_place() -> None:
    """In that of its status, and in that of all; compared with a search of them all."""
    random, rollouts, numbers, sessions = Random(4), Rollouts(), count(1), list[Session]()
    for _ in range(600):
        what = random.random()
        if what < 0.45 or not sessions:
            session = Session(f"s{(number := next(numbers))}", Terms(rollout_id=f"r{random.randrange(30)}"))
            session.number = number
            sessions.append(session)
            rollouts.join(session)
        elif what < 0.8:
            session = random.choice(sessions)
            session.finished = True
            rollouts.end(session)
        else:
            session = sessions.pop(random.randrange(len(sessions)))
            rollouts.leave(session)
            rollouts.leave(session)
            assert rollouts.of_session(session.number) is None
        members = {session.rollout_id: rollouts.of_session(session.number) for session in sessions}
        every = [rollout for rollout in members.values() if rollout is not None]
        ended = {rollout for rollout in every if all(session.ended for session in rollout.sessions)}
        assert {id(rollout) for rollout in every if rollout.place} == {id(rollout) for rollout in ended}
        assert len(every) == len(members)
        statuses: dict[Status, list[Members]] = {
            "finished": sorted(ended, key=lambda rollout: rollout.place),
            "open": sorted({*every} - ended, key=lambda rollout: rollout.number),
            "all": sorted(every, key=lambda rollout: rollout.number),
        }
        for status, expected in statuses.items():
            assert found(rollouts, status) == expected
            assert rollouts.last(status) == (expected[-1].place_in(status) if expected else 0)
            for index, rollout in enumerate(expected):
                assert found(rollouts, status, rollout.place_in(status)) == expected[index + 1 :]


def test_what_ends_last_stands_last() -> None:
    """Also when it had ended before, and got another session."""
    rollouts, sessions = Rollouts(), [Session("a"), Session("b"), Session("c", Terms(rollout_id="a"))]
    for number, session in enumerate(sessions, 1):
        session.number, session.finished = number, True
    for session in sessions[:2]:
        rollouts.join(session)
        rollouts.end(session)
    first, second = found(rollouts, "finished")
    read = first.place

    rollouts.join(sessions[2])
    assert found(rollouts, "finished") == [second]
    rollouts.end(sessions[2])
    assert found(rollouts, "finished") == [second, first]
    assert found(rollouts, "finished", read) == [second, first]
    assert found(rollouts, "all") == [first, second]
