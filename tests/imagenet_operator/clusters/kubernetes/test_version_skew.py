"""Another version of the operator or of the CRD than this one: no running job is harmed."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from imagenet_spec.resource.job import root_schema
from support.api_requests import Refusal, creates_a_pod
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.job_table import ADMITTED
from support.operator_harness import (
    FIRST,
    SECOND,
    Harness,
    claim,
    cluster_of,
    cluster_of_one,
    job,
    node,
    running,
    started,
)
from support.version_skew import (
    Edit,
    Manifest,
    looked_at,
    preparing,
    set_suspend,
    uids,
    written_by_a_newer_operator,
)

# ------------------------------------------------------------------ states of a job


async def suspended(harness: Harness) -> None:
    await started(harness)
    await harness.server.change("ImageNetJob", "digits", set_suspend(True))
    await harness.settle()
    await harness.finish_deleting()
    await harness.settle()
    assert harness.status()["phase"] == "Suspended"


async def finished(harness: Harness) -> None:
    """Bring a job to where it has succeeded, with its pods kept."""
    await started(harness)
    await harness.end_pods()
    await harness.settle()
    assert harness.status()["phase"] == "Succeeded"
    assert harness.pods() == FIRST


STATES = {
    "preparing": preparing,
    "running": started,
    "suspended": suspended,
    "finished": finished,
}


# ------------------------------------------------------------------ skews


def is_carried(status: Manifest) -> bool:
    """Whether a status has what a newer operator wrote into it."""
    training = status.get("training", {"gpuSeconds": 17, "members": [{"rack": "r1"}]})
    return (
        status["region"] == {"name": "north", "racks": [1, 2]}
        and "Mirrored" in [item["type"] for item in status["conditions"]]
        and status["conditions"][0]["severity"] == "Info"
        and training["gpuSeconds"] == 17
        and [item.get("rack") for item in training["members"]].count("r1") == 1
    )


def schema_without(*paths: str) -> Manifest:
    """The schema of a definition that lacks fields of the status."""
    schema = copy.deepcopy(root_schema())
    for path in paths:
        *parents, last = path.split(".")
        found = schema["properties"]["status"]
        for name in parents:
            found = found["properties"][name]
            found = found.get("items", found)
        del found["properties"][last]
    return schema


@dataclass(frozen=True)
class Skew:
    """What becomes of the API server, and whether nothing may start afterwards."""

    restarts_operator: bool
    happen: Callable[[FakeApiServer], Awaitable[None]]
    holds: bool = False


def edited(edit: Edit) -> Callable[[FakeApiServer], Awaitable[None]]:
    """The skew that the stored job is another one."""

    async def happen(server: FakeApiServer) -> None:
        await server.change("ImageNetJob", "digits", edit)

    return happen


def defined(schema: Manifest) -> Callable[[FakeApiServer], Awaitable[None]]:
    """The skew that another definition is installed."""

    async def happen(server: FakeApiServer) -> None:
        await server.define(schema)

    return happen


def without(*paths: str) -> Callable[[FakeApiServer], Awaitable[None]]:
    """The skew that an older operator, with its definition, wrote the status."""

    async def happen(server: FakeApiServer) -> None:
        await server.define(schema_without(*paths))
        await server.define(root_schema())

    return happen


def with_a_new_default(item: Manifest) -> None:
    """Do what the API server does with the default of a field that only the definition knows."""
    item["spec"]["training"]["ringSize"] = 4


SKEWS = {
    "upgrade": Skew(
        True,
        without(
            "disruptions",
            "singleNodeClaims",
            "observedGeneration",
            "training.schedulableTime",
            "training.boundTime",
            "training.clock",
            "training.members.startedAt",
        ),
    ),
    "rollback": Skew(True, edited(written_by_a_newer_operator), holds=True),
    "older definition": Skew(False, defined(schema_without("training", "restarts"))),
    "definition without members": Skew(False, defined(schema_without("training.members"))),
    "definition without attempts": Skew(False, defined(schema_without("training.attempt"))),
    "definition without times": Skew(False, defined(schema_without("startTime", "completionTime"))),
    "definition without conditions": Skew(False, defined(schema_without("conditions"))),
    "newer definition": Skew(False, edited(with_a_new_default), holds=True),
}


@pytest.mark.parametrize("skew", SKEWS.values(), ids=SKEWS)
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
@asynchronous
async def test_a_skew_leaves_every_pod_and_costs_no_restart(
    state: Callable[[Harness], Awaitable[None]], skew: Skew
) -> None:
    named = [claim(), claim(name="raw")]
    async with cluster_of(node("n1"), claims=named) as server:
        async with running(server) as harness:
            await state(harness)
            before, phase = uids(server), harness.status()["phase"]
            created = len([item for item in server.requests if creates_a_pod(item)])
            if not skew.restarts_operator:
                await skew.happen(server)
                await looked_at(harness)
        if skew.restarts_operator:
            await skew.happen(server)
        async with running(server) as harness:
            await harness.settle()
            await looked_at(harness)

            assert uids(server) == before
            assert created == len([item for item in server.requests if creates_a_pod(item)])
            status = harness.status()
            assert status.get("restarts", 0) == status.get("disruptions", 0) == 0
            assert status["phase"] == phase
            if skew.happen is SKEWS["rollback"].happen:
                assert is_carried(status)
            if state is started:
                await ends_well(harness, before)
            if state is suspended:
                await resumes(harness, skew)


async def ends_well(harness: Harness, before: dict[str, str]) -> None:
    """The same pods end the job."""
    await harness.end_pods()
    await harness.settle()
    assert uids(harness.server) == before
    assert harness.status()["phase"] == "Succeeded"
    assert harness.events().count("Restarting") == 0


async def resumes(harness: Harness, skew: Skew) -> None:
    """The next attempt starts, unless the spec has an unknown field."""
    await harness.server.change("ImageNetJob", "digits", set_suspend(False))
    await harness.settle()
    assert harness.pods() == ([] if skew.holds else SECOND)


@asynchronous
async def test_what_an_older_definition_prunes_does_not_restart_a_job_without_limit() -> None:
    async with cluster_of_one() as harness:
        await harness.server.define(schema_without("training", "restarts", "disruptions"))
        limited = job()
        limited["spec"]["runPolicy"] = {"backoffLimit": 3}
        await harness.server.add(limited)
        await harness.settle()
        for attempt in range(4):
            assert {name.split("-")[1] for name in harness.pods()} == {f"r{attempt}"}
            await harness.run_pods()
            await harness.settle()
            await harness.end_pod(f"digits-r{attempt}-worker-1", code=1)
            await harness.settle()
            await harness.finish_deleting()
            await harness.let_pass(3600)

        assert harness.condition("Failed")["reason"] == "BackoffLimitExceeded"


@asynchronous
async def test_a_job_that_is_larger_than_new_ones_may_be_goes_on() -> None:
    async with cluster_of_one() as harness:
        large = job()
        large["spec"]["training"]["workers"]["replicas"] = 6000
        large["spec"]["training"]["batchSize"] = 6000
        # An earlier version admitted it.
        large["status"] = {"conditions": [ADMITTED]}
        refused = harness.server.refuse(Refusal(403, "Forbidden", "quota"), creates_a_pod)
        await harness.server.add(large)
        await harness.server.until(lambda: len(refused) > 0)

        assert "Failed" not in str(harness.status())
