"""Claims whose owners may not be changed, as an admission plugin may have it: the job goes on."""

from datetime import UTC, datetime
from typing import Any

import pytest

from support.api_requests import Refusal, Request
from support.asynchronous import asynchronous
from support.operator_harness import Harness, cluster_of_one, job

Manifest = dict[str, Any]
KEY = ("vision", "digits")
FORBIDDEN = Refusal(
    403,
    "Forbidden",
    'persistentvolumeclaims "digits-output" is forbidden: cannot set blockOwnerDeletion if an '
    "ownerReference refers to a resource you can't set finalizers on",
)
UNAVAILABLE = Refusal(500, "InternalError", "failed calling webhook")


def with_output() -> Manifest:
    """A job with a claim that the operator makes for it."""
    return job(training={"output": {"volume": {"size": "1Gi"}}})


def patches_a_claim(asked: Request) -> bool:
    return (asked.verb, asked.kind) == ("patch", "PersistentVolumeClaim")


async def retain_no_more(harness: Harness) -> None:
    await harness.server.change(
        "ImageNetJob",
        "digits",
        lambda item: item["spec"].update(runPolicy={"retentionPolicy": "Delete"}),
    )
    await harness.settle()


@pytest.mark.parametrize(("answer", "told"), [(FORBIDDEN, 1), (UNAVAILABLE, 0)])
@asynchronous
async def test_a_job_ends_though_its_claim_may_not_change_hands(answer: Refusal, told: int) -> None:
    async with cluster_of_one() as harness:
        refused = harness.server.refuse(answer, patches_a_claim)
        await harness.server.add(with_output())
        await harness.settle()
        await harness.run_pods()
        await harness.settle()
        await retain_no_more(harness)
        assert refused
        await harness.end_pods()
        await harness.settle()

        assert harness.status()["phase"] == "Succeeded"
        assert harness.events().count("ApiServerRefused") == told
        assert harness.operator.loop.queue.next_due() is not None


@asynchronous
async def test_a_claim_that_may_change_hands_later_does() -> None:
    async with cluster_of_one() as harness:
        refused = harness.server.refuse(FORBIDDEN, patches_a_claim, times=2)
        await harness.server.add(with_output())
        await harness.settle()
        await retain_no_more(harness)
        for _ in range(3):
            harness.operator.loop.enqueue(KEY)
            await harness.settle()

        assert len(refused) == 2
        made, named = harness.server.all("PersistentVolumeClaim")
        assert [owner["name"] for owner in made["metadata"]["ownerReferences"]] == ["digits"]
        assert "ownerReferences" not in named["metadata"]
        assert harness.events().count("ApiServerRefused") == 1


@asynchronous
async def test_a_job_that_is_applied_again_trains_beside_a_claim_that_stays_as_it_is() -> None:
    async with cluster_of_one() as harness:
        # A claim that is older than the job keeps its owners, so both are of one second.
        second = datetime.now(UTC)
        harness.server.storage.clock = lambda: second
        await harness.server.add(with_output())
        await harness.settle()
        await harness.server.remove("ImageNetJob", "digits")
        await harness.settle()
        harness.server.refuse(FORBIDDEN, patches_a_claim)
        again = with_output()
        again["spec"]["runPolicy"] = {"retentionPolicy": "Delete"}
        await harness.server.add(again)
        await harness.settle()
        await harness.run_pods()
        await harness.settle()

        assert harness.status()["phase"] == "Running"
        assert harness.events().count("ApiServerRefused") == 1
