"""A shape is proven before it is relied on, proven again now and then, and never relied on once that failed."""

import pytest

from gateway.render.certification import AUDIT_INTERVAL, Certifications


def steps(known, shape, turns, *, passes=True):
    """What each of some turns may have, where every proof passes or fails."""
    found = []
    for _ in range(turns):
        due = known.due(shape)
        found.append(due.step)
        if due.step == "proof":
            known.certify(shape, "proof") if passes else known.refuse(shape, due)
    return found


def test_the_first_turn_of_a_shape_and_one_in_fifty_of_the_others_is_proven():
    """The others rely on it."""
    found = steps(Certifications(), "a", 2 * AUDIT_INTERVAL + 1)

    assert [at for at, step in enumerate(found) if step == "proof"] == [0, AUDIT_INTERVAL, 2 * AUDIT_INTERVAL]
    assert {"proof", "trust"} == set(found)


def test_an_interval_of_one_proves_every_turn():
    """For who wants no turn to rely on another."""
    assert steps(Certifications(1), "a", 3) == ["proof"] * 3


def test_what_could_not_be_proven_is_tried_again_at_once_and_then_ever_less_often():
    """The turn may have been a peculiar one, like the trial at start; a shape that never can costs little."""
    known: Certifications[str] = Certifications(3)

    assert steps(known, "a", 8, passes=False) == [
        *["proof"] * 2,
        *["nothing", "proof"],
        *["nothing", "nothing", "proof"],
        "nothing",
    ]
    assert known.due("a").proof is None
    assert (known.shapes()["refused"], known.audits()["failed"]) == (1, 0)
    assert steps(known, "a", 2) == ["proof", "trust"]


def test_a_failed_audit_revokes_for_good():
    """Whatever is said of that shape later."""
    known: Certifications[str] = Certifications(2)
    assert steps(known, "a", 2) == ["proof", "trust"]
    assert steps(known, "a", 9, passes=False) == ["proof", *["nothing"] * 8]

    assert known.due("a").proof is None
    assert known.audits() == {"passed": 1, "failed": 1}
    assert known.shapes() == {"certified": 0, "refused": 0, "revoked": 1}


def test_a_revoked_shape_stays_so_when_a_slower_audit_passes_or_an_older_proof_fails():
    """Several turns may be proven at once."""
    known: Certifications[str] = Certifications(1)
    older = known.due("a")
    known.certify("a", "proof")
    audit, _ = known.due("a"), known.due("a")
    known.refuse("a", audit)
    known.certify("a", "proof")
    known.refuse("a", older)

    assert known.due("a").step == "nothing"
    assert known.shapes()["revoked"] == 1


def test_of_two_first_proofs_at_once_one_that_fails_is_no_failed_audit():
    """Nothing was certified when it began: so nothing is revoked, and it is tried again."""
    known: Certifications[str] = Certifications()
    first, second = known.due("a"), known.due("a")
    known.certify("a", "proof")
    known.refuse("a", second)

    assert (first.step, known.audits()["failed"], known.shapes()["refused"]) == ("proof", 0, 1)
    assert known.due("a").step == "proof"


def test_what_is_due_stays_due_until_it_is_known_how_it_went():
    """A turn that could not be written at all tells nothing."""
    known: Certifications[str] = Certifications(2)
    assert [known.due("a").step, known.due("a").step] == ["proof", "proof"]
    known.certify("a", "proof")

    assert known.due("a") == ("trust", "proof")
    assert [known.due("a"), known.due("a")] == [("proof", "proof")] * 2


def test_shapes_are_bounded_and_revoked_ones_are_never_forgotten():
    """Clients choose them; where all there is room for is revoked, nothing new is certified."""
    known: Certifications[str] = Certifications(1, most_shapes=2)
    steps(known, "bad", 1)
    steps(known, "bad", 1, passes=False)
    steps(known, "a", 1)
    steps(known, "b", 1)

    assert known.due("b").proof == "proof"
    assert known.shapes() == {"certified": 1, "refused": 0, "revoked": 1}
    assert known.due("bad").step == "nothing"
    steps(known, "b", 1, passes=False)
    assert known.due("c").step == "nothing"
    assert known.shapes()["revoked"] == 2


def test_an_interval_of_nothing_is_refused():
    """A setting that could not be meant."""
    with pytest.raises(ValueError, match="audited"):
        Certifications(0)
