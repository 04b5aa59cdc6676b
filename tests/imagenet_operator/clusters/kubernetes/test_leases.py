"""Which Leases overlap, and who holds them by the clock of the one who looks."""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes import leader_election
from imagenet_operator.clusters.kubernetes.leader_election import Observations, Scope, jobs_of

ALL = Scope.of([])
TWO = Scope.of(["vision", "research"])


class Time:
    """A clock that a test sets."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(leader_election, "time", made)
    return made


def lease(name: str, holder: str | None, renewed: int = 0) -> dict[str, Any]:
    spec = {"leaseDurationSeconds": 15, "renewTime": f"2026-01-02T03:04:{renewed:02}.000000Z"}
    if holder is not None:
        spec["holderIdentity"] = holder
    return {"metadata": {"name": name}, "spec": spec}


def test_one_lease_for_each_watched_namespace_and_one_for_all() -> None:
    assert TWO.names == ("imagenet-operator.research", "imagenet-operator.vision")
    assert ALL.names == ("imagenet-operator",)


@pytest.mark.parametrize(
    ("scope", "other", "overlaps"),
    [
        (ALL, "imagenet-operator", True),
        (ALL, "imagenet-operator.vision", True),
        (ALL, "kube-scheduler", False),
        (TWO, "imagenet-operator", True),
        (TWO, "imagenet-operator.vision", True),
        (TWO, "imagenet-operator.speech", False),
    ],
)
def test_which_holders_would_run_the_same_jobs(scope: Scope, other: str, overlaps: bool) -> None:
    assert scope.overlaps(other) == overlaps


def test_what_a_holder_runs_in_words() -> None:
    assert jobs_of("imagenet-operator.vision") == "the namespace vision"
    assert jobs_of("imagenet-operator") == "all namespaces"


def test_a_lease_is_held_until_it_did_not_change_for_its_duration(time: Time) -> None:
    seen = Observations()
    seen.replace([lease("imagenet-operator", "a")])
    time.now = 14.9
    assert seen.holders(ALL) == {"imagenet-operator": "a"}
    time.now = 15.0
    assert seen.holders(ALL) == {}


def test_a_renewal_counts_from_when_it_was_seen_whatever_time_it_names(time: Time) -> None:
    seen = Observations()
    seen.replace([lease("imagenet-operator", "a", renewed=59)])
    time.now = 10.0
    seen.replace([lease("imagenet-operator", "a", renewed=1)])
    time.now = 20.0
    seen.replace([lease("imagenet-operator", "a", renewed=1)])
    assert seen.holders(ALL) == {"imagenet-operator": "a"}
    assert seen.next_expiry(["imagenet-operator"]) == 25.0


def test_a_lease_that_was_deleted_stays_held_until_it_would_have_expired(time: Time) -> None:
    seen = Observations()
    seen.replace([lease("imagenet-operator", "a")])
    time.now = 5.0
    seen.replace([])
    assert seen.holders(ALL) == {"imagenet-operator": "a"}
    assert seen.stored("imagenet-operator") is None
    time.now = 15.0
    assert seen.holders(ALL) == {}


def test_a_lease_that_was_released_is_free_at_once(time: Time) -> None:
    seen = Observations()
    seen.replace([lease("imagenet-operator", "a")])
    time.now = 1.0
    seen.replace([lease("imagenet-operator", None)])
    assert seen.holders(ALL) == {}
