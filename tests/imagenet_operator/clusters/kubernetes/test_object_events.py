"""The Event that says why an object waits, among all Events about it."""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes.object_events import queue_words, relevant_event
from imagenet_operator.reconcile.types import ObjectEvent

MISSING = 'MountVolume.SetUp failed for volume "keys" : secret "keys" not found'
SLOW = "MountVolume.SetUp failed for volume nfs: Connection timed out"


def mount(message: str, time: str) -> dict[str, Any]:
    at = f"2026-01-02T{time}Z"
    return {"reason": "FailedMount", "message": message, "lastTimestamp": at}


def test_the_name_of_what_is_missing_counts_while_the_kubelet_repeats_it() -> None:
    events = [mount(MISSING, "03:00:00"), mount("Unable to attach or mount volumes", "03:02:05")]
    assert relevant_event(events) == ObjectEvent("FailedMount", MISSING)


def test_the_old_event_about_a_secret_that_was_created_does_not_count() -> None:
    events = [mount(MISSING, "03:00:00"), mount(SLOW, "03:05:00"), mount(SLOW, "03:03:30")]
    assert relevant_event(events) == ObjectEvent("FailedMount", SLOW)


def test_progress_ends_what_older_events_say() -> None:
    started = {"reason": "Pulled", "lastTimestamp": "2026-01-02T03:06:00Z"}
    assert relevant_event([mount(MISSING, "03:05:00"), started]) is None
    assert relevant_event([]) is None


def condition(kind: str, status: str, message: str) -> dict[str, str]:
    return {"type": kind, "status": status, "message": message}


QUOTA = "insufficient unused quota for cpu in flavor plain, 200m more needed"
RESERVED = condition("QuotaReserved", "True", "Quota reserved in ClusterQueue cq")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({}, ""),
        (
            {
                "conditions": [
                    condition(
                        "QuotaReserved",
                        "False",
                        f"couldn't assign flavors to pod set main: {QUOTA}",
                    )
                ]
            },
            QUOTA,
        ),
        (
            {"conditions": [condition("QuotaReserved", "False", "LocalQueue lq is inactive")]},
            "LocalQueue lq is inactive",
        ),
        ({"conditions": [RESERVED]}, ""),
        (
            {
                "conditions": [RESERVED],
                "admissionChecks": [
                    {"name": "ready", "state": "Ready"},
                    {"name": "nodes", "state": "Pending"},
                ],
            },
            "it has quota, and waits for the admission check nodes",
        ),
    ],
)
def test_the_words_of_kueue_are_those_of_its_workload(status: dict[str, Any], words: str) -> None:
    assert queue_words({"status": status}) == words
