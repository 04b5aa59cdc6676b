"""Attempts of thousands of members: their status is small, and decides what a long one would."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from imagenet_spec import stored
from imagenet_spec.resource.status import Status
from support.large_attempt import LargeAttempt

LARGEST = 300_000
"""Bytes of a status at most. etcd accepts an object of 1.5 MiB."""

WORDS = "Traceback (most recent call last):\n" + "x" * 4000 + "\nMXNetError: äöü out of memory"


def size_of(attempt: LargeAttempt) -> int:
    """The bytes of the stored status."""
    return len(json.dumps(attempt.job["status"], ensure_ascii=False).encode())


def fail(attempt: LargeAttempt, index: int) -> None:
    """Let a worker fail, with many words, a second later than the one of the next index."""
    seconds = f"2026-01-02T03:{59 - index // 60 % 60:02}:{59 - index % 60:02}Z"
    attempt.end(f"worker-{index}", code=index % 250 + 1, message=WORDS, at=seconds)


def everything_fails(attempt: LargeAttempt) -> None:
    """Let all workers fail, each in its way."""
    for index in range(attempt.workers):
        fail(attempt, index)


def every_other_succeeds(attempt: LargeAttempt) -> None:
    """Let every other worker end well: the worst case for ranges."""
    for index in range(0, attempt.workers, 2):
        attempt.end(f"worker-{index}", code=0, message="{" + "x" * 4000)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("workers", "servers", "happen"),
    [
        (3000, 2000, everything_fails),
        (4999, 1, every_other_succeeds),
        (501, 0, everything_fails),
        (499, 0, every_other_succeeds),
    ],
)
def test_a_status_has_a_bounded_size(
    workers: int, servers: int, happen: Callable[[LargeAttempt], None]
) -> None:
    attempt = LargeAttempt(workers, servers)
    attempt.begin()
    assert attempt.status.training is not None
    assert len(attempt.status.training.members) == workers + servers + 1
    happen(attempt)
    attempt.reconcile()
    assert size_of(attempt) < LARGEST
    assert attempt.reconcile() is False


def test_a_failure_names_the_member_that_failed_first_and_its_words() -> None:
    attempt = LargeAttempt(1000, 0)
    attempt.begin()
    everything_fails(attempt)
    attempt.reconcile()
    training = attempt.status.training
    assert training is not None and training.outcome is not None
    assert training.outcome.message.startswith("digits-r0-worker-")
    assert training.outcome.message.endswith("MXNetError: äöü out of memory")
    assert training.replica_statuses["worker"].failed == 1000


@pytest.mark.parametrize(
    ("happen", "reason"),
    [
        (lambda attempt: attempt.pods.pop("worker-777"), "Vanished"),
        (lambda attempt: attempt.pods["worker-777"]["metadata"].update(uid="other"), "Replaced"),
        (lambda attempt: attempt.end("worker-777", code=1), "MemberFailed"),
        (lambda attempt: attempt.end("worker-777", code=2), "PermanentFailure"),
    ],
)
def test_what_happens_to_one_of_a_thousand_is_noticed(
    happen: Callable[[LargeAttempt], Any], reason: str
) -> None:
    attempt = LargeAttempt(1000, 0)
    attempt.begin()
    happen(attempt)
    attempt.reconcile()
    training = attempt.status.training
    assert training is not None and training.outcome is not None
    assert training.outcome.reason == reason
    assert "worker-777" in training.outcome.message


def test_success_needs_all_and_has_the_figures_of_rank_0() -> None:
    attempt = LargeAttempt(1000, 0)
    attempt.begin()
    attempt.end("worker-3", code=0, message='{"epochs": 3, "top1": 0.5}')
    for index in range(999):
        if index != 3:
            attempt.end(f"worker-{index}", code=0, message='{"step": 1}')
    attempt.reconcile()
    assert attempt.job["status"]["phase"] == "Running"
    attempt.end("worker-999", code=0)
    attempt.reconcile()
    assert attempt.job["status"]["phase"] == "Succeeded"
    assert attempt.job["status"]["training"]["accuracy"] == {"validation": 0.5}


def test_a_definition_without_groups_ends_no_attempt_early() -> None:
    attempt = LargeAttempt(501, 0)
    attempt.begin()
    attempt.end("worker-0", code=0, message='{"epochs": 3, "top1": 0.5}')
    for _ in range(3):
        attempt.reconcile()
        attempt.job["status"]["training"].pop("memberGroups")
        assert len(attempt.job["status"]["training"]["members"]) == 1
        assert attempt.job["status"]["phase"] == "Running"
    for index in range(1, 501):
        attempt.end(f"worker-{index}", code=0)
    attempt.reconcile()
    assert attempt.job["status"]["phase"] == "Succeeded"
    assert attempt.status.restarts == 0


def test_a_status_with_one_entry_a_member_is_read_and_written_in_groups() -> None:
    attempt = LargeAttempt(1000, 0)
    attempt.begin()
    record = attempt.job["status"]["training"]
    groups = record.pop("memberGroups")
    assert [group["pods"] for group in groups] == [
        "digits-r0-rendezvous-[0]",
        "digits-r0-worker-[0-999]",
    ]
    record["members"] = [
        {
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
            "role": pod["metadata"]["name"].split("-")[2],
            "phase": "Running",
            "node": "n1",
        }
        for pod in attempt.pods.values()
    ]
    assert attempt.reconcile() is True
    assert attempt.job["status"]["training"]["memberGroups"] == groups
    assert attempt.job["status"]["training"]["members"] == []
    assert attempt.status.restarts == 0


def test_a_reduced_status_has_the_same_members_without_words() -> None:
    attempt = LargeAttempt(400, 0)
    attempt.begin()
    everything_fails(attempt)
    attempt.reconcile()
    before = size_of(attempt)
    small = stored.reduced(attempt.status)
    attempt.job["status"] = stored.carried(attempt.job["status"], small)
    assert size_of(attempt) < before / 2
    assert len(attempt.job["status"]["training"]["memberGroups"]) == 251
    training = attempt.status.training
    assert training is not None
    assert [item.phase for item in training.members] == ["Running"] + ["Failed"] * 400
    assert Status.model_validate(attempt.job["status"])


def test_a_reduced_status_keeps_the_result() -> None:
    attempt = LargeAttempt(400, 0)
    attempt.begin()
    attempt.end("worker-3", code=0, message='{"epochs": 3, "top1": 0.5}')
    attempt.reconcile()
    small = stored.reduced(attempt.status)
    attempt.job["status"] = stored.carried(attempt.job["status"], small)
    for index in range(400):
        attempt.end(f"worker-{index}", code=0)
    attempt.reconcile()
    assert attempt.job["status"]["phase"] == "Succeeded"
    assert attempt.job["status"]["training"]["accuracy"] == {"validation": 0.5}
