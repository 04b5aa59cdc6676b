"""The Event that says why an object waits, among all Events about it."""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes.diagnostics import queue_words, relevant_event
from imagenet_operator.reconcile.types import ObjectEvent
from support.api_requests import Refusal, Request
from support.asynchronous import asynchronous
from support.operator_harness import Harness, cluster_of_one, started

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


WORKER = "digits-r0-worker-1"
LOG = "".join(f"step {number}\rstep {number} done\n" for number in range(40)) + "out of luck\n"


def reads_a_log(asked: Request) -> bool:
    return asked.subresource == "log"


def said(harness: Harness) -> list[str]:
    return [
        item["message"] for item in harness.server.all("Event") if item["reason"] == "LastLines"
    ]


@pytest.mark.parametrize("code", [1, 137])
@asynchronous
async def test_the_last_lines_of_a_failed_member_become_an_event(code: int) -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        harness.server.logs[WORKER] = LOG
        await harness.end_pod(WORKER, code=code)
        await harness.settle()

        (message,) = said(harness)
        assert message.startswith(f"{WORKER}, its last lines:\n")
        assert message.endswith("step 39\nstep 39 done\nout of luck")
        assert len(message.splitlines()) == 21
        reads = list(filter(reads_a_log, harness.server.requests))
        assert [item.name for item in reads] == [WORKER]


@asynchronous
async def test_long_lines_are_cut_at_their_beginning() -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        harness.server.logs[WORKER] = "x" * 5000 + "\x07the end\n"
        await harness.end_pod(WORKER, code=1)
        await harness.settle()

        (message,) = said(harness)
        assert len(message) == 1024
        assert message.endswith("�the end")


@pytest.mark.parametrize(
    "answer", [Refusal(403, "Forbidden", "no"), Refusal(404, "NotFound"), Refusal(500, "Error")]
)
@asynchronous
async def test_a_log_that_cannot_be_read_delays_nothing(answer: Refusal) -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        harness.server.refuse(answer, reads_a_log)
        await harness.end_pod(WORKER, code=1)
        await harness.settle()
        assert harness.status()["restarts"] == 1
        assert said(harness) == []


@asynchronous
async def test_nothing_is_read_of_a_disruption() -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        await harness.server.remove("Pod", WORKER)
        await harness.settle()
        assert harness.status()["disruptions"] == 1
        assert not any(map(reads_a_log, harness.server.requests))


@pytest.mark.parametrize("policy", ["None", "Running"])
@asynchronous
async def test_clean_pod_policy_none_keeps_the_failed_pods_until_the_next_failure(
    policy: str,
) -> None:
    async with cluster_of_one() as harness:
        await started(harness, run_policy={"cleanPodPolicy": policy})

        async def fail(name: str) -> None:
            await harness.end_pod(name, code=1)
            await harness.settle()
            await harness.finish_deleting()
            await harness.let_pass(600)
            await harness.run_pods()
            await harness.settle()

        def of_attempt(number: int) -> list[str]:
            return [name for name in harness.pods() if f"-r{number}-" in name]

        kept: list[Any] = [WORKER] if policy == "None" else []
        await fail(WORKER)
        assert (of_attempt(0), len(of_attempt(1))) == (kept, 5)
        await fail("digits-r1-server-0")
        kept = ["digits-r1-server-0"] if policy == "None" else []
        assert (of_attempt(0), of_attempt(1), len(of_attempt(2))) == ([], kept, 5)
