"""Conditions in Kubernetes' form."""

from imagenet_operator.reconcile.policies import conditions
from support.attempt_members import NOW, later


def test_a_new_condition_comes_last() -> None:
    first = conditions.put((), "Created", True, "JobAccepted", "", now=NOW, generation=1)
    both = conditions.put(first, "Running", False, "Starting", "wait", now=NOW, generation=2)
    assert [item.type for item in both] == ["Created", "Running"]
    assert (both[1].status, both[1].observed_generation) == ("False", 2)
    assert conditions.holds(both, "Created")
    assert not conditions.holds(both, "Running")
    assert not conditions.holds(both, "Failed")


def test_time_moves_only_with_the_status() -> None:
    one = conditions.put((), "Running", False, "Starting", "", now=NOW, generation=1)
    two = conditions.put(one, "Running", False, "Scheduling", "", now=later(5), generation=1)
    three = conditions.put(two, "Running", True, "Running", "", now=later(9), generation=1)
    assert [item[0].last_transition_time for item in (one, two, three)] == [NOW, NOW, later(9)]
    assert [item[0].reason for item in (one, two, three)] == ["Starting", "Scheduling", "Running"]


def test_saying_the_same_again_changes_nothing() -> None:
    one = conditions.put((), "Failed", True, "Why", "x" * 9000, now=NOW, generation=1)
    again = conditions.put(one, "Failed", True, "Why", "x" * 9000, now=later(5), generation=7)
    assert again == one


def test_last_words_are_cut() -> None:
    (one,) = conditions.put((), "Failed", True, "Why", "x" * 9000, now=NOW, generation=1)
    assert len(one.message) == conditions.MESSAGE_MAXIMUM
    assert one.message.endswith("…")
