"""What the operator counts of jobs: restarts, and nothing that only looks like one."""

from typing import Any

import pytest
from prometheus_client import Gauge

from imagenet_operator.clusters.kubernetes import metrics
from support.asynchronous import asynchronous
from support.operator_harness import Harness, claim, cluster_of_one, job
from support.version_skew import looked_at, written_by_a_newer_operator


def restarts(name: str = "digits") -> dict[str, float]:
    (family,) = metrics.RESTARTS.collect()
    return {
        sample.labels["reason"]: sample.value
        for sample in family.samples
        if sample.labels["imagenet_job"] == name and sample.name.endswith("_total")
    }


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SEEN_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def nothing_counted() -> None:
    metrics.forget_job("vision", "digits")


async def begun(harness: Harness, **run_policy: Any) -> None:
    await harness.server.add(job(run_policy=run_policy))
    await harness.settle()
    await harness.run_pods()
    await harness.settle()


@pytest.mark.usefixtures("at_once")
@asynchronous
async def test_a_restart_after_a_failure_is_counted_by_its_reason() -> None:
    async with cluster_of_one() as harness:
        await begun(harness)
        for attempt in range(2):
            await harness.end_pod(f"digits-r{attempt}-worker-1", code=1)
            await run_on(harness)

        assert harness.status()["restarts"] == 2
        assert restarts() == {"MemberFailed": 2}


@pytest.mark.usefixtures("at_once")
@asynchronous
async def test_a_restart_after_a_disruption_is_counted_too() -> None:
    async with cluster_of_one() as harness:
        await begun(harness)
        await harness.server.remove("Pod", "digits-r0-worker-1")
        await run_on(harness)

        assert harness.status()["disruptions"] == 1
        assert restarts() == {"Vanished": 1}


async def run_on(harness: Harness) -> None:
    """Let the pods go that are being deleted, and the next ones run."""
    await harness.settle()
    await harness.finish_deleting()
    await harness.settle()
    await harness.run_pods()
    await harness.settle()


@asynchronous
async def test_the_first_restart_is_told_as_none_before() -> None:
    """What begins with 1 has not grown, as Prometheus sees it."""
    async with cluster_of_one() as harness:
        await begun(harness)
        await harness.end_pod("digits-r0-worker-1", code=1)
        await harness.settle()

        assert harness.status()["restarts"] == 1
        assert restarts() == {"MemberFailed": 0}


@pytest.mark.usefixtures("at_once")
@asynchronous
async def test_the_last_failure_is_no_restart() -> None:
    async with cluster_of_one() as harness:
        await begun(harness, backoffLimit=0)
        await harness.end_pod("digits-r0-worker-1", code=1)
        await harness.settle()

        assert harness.condition("Failed")["reason"] == "BackoffLimitExceeded"
        assert restarts() == {}


@pytest.mark.usefixtures("at_once")
@asynchronous
async def test_a_suspended_attempt_is_no_restart() -> None:
    async with cluster_of_one() as harness:
        await begun(harness)
        await harness.server.change(
            "ImageNetJob", "digits", lambda item: item["spec"]["runPolicy"].update(suspend=True)
        )
        await harness.settle()

        assert harness.status()["training"]["outcome"]["reason"] == "Suspended"
        assert restarts() == {}


@pytest.mark.usefixtures("at_once")
@asynchronous
async def test_an_attempt_that_found_no_room_is_no_restart() -> None:
    async with cluster_of_one() as harness:
        policy = {"schedulingPolicy": {"scheduleTimeoutSeconds": 1}}
        await harness.server.add(job(run_policy=policy))
        await harness.settle()
        # As when the scheduler says of a pod that it finds no node.
        harness.operator.loop.enqueue(("vision", "digits"))
        await harness.server.until(lambda: "GangTimedOut" in harness.events())
        await harness.settle()

        assert restarts() == {}


@pytest.mark.usefixtures("at_once")
@asynchronous
async def test_a_job_that_is_gone_is_counted_no_more() -> None:
    async with cluster_of_one() as harness:
        await begun(harness)
        await harness.end_pod("digits-r0-worker-1", code=1)
        await harness.settle()
        assert restarts() == {"MemberFailed": 1}
        await harness.server.remove("ImageNetJob", "digits")
        await harness.settle()

        assert restarts() == {}


def waiting_jobs() -> dict[str, str]:
    (family,) = metrics.WAITING.collect()
    return {sample.labels["imagenet_job"]: sample.labels["reason"] for sample in family.samples}


@asynchronous
async def test_a_job_that_waits_is_counted_by_its_reason_while_it_waits() -> None:
    async with cluster_of_one(claims=[]) as harness:
        await harness.server.add(job())
        await harness.settle()
        harness.operator.measure()
        assert waiting_jobs() == {"digits": "ClaimNotFound"}

        await harness.server.add(claim())
        await harness.let_pass(30)
        await harness.run_pods()
        await harness.settle()
        harness.operator.measure()
        assert harness.status()["phase"] == "Running"
        assert waiting_jobs() == {}


@asynchronous
async def test_a_job_that_runs_does_not_wait_though_its_spec_is_from_a_newer_operator() -> None:
    async with cluster_of_one() as harness:
        await begun(harness)
        await harness.server.change("ImageNetJob", "digits", written_by_a_newer_operator)
        await looked_at(harness)
        created = harness.condition("Created")
        assert (created["status"], created["reason"]) == ("True", "UnsupportedSpec")
        harness.operator.measure()
        assert harness.status()["phase"] == "Running"
        assert waiting_jobs() == {}


def stragglers() -> dict[tuple[str, str], float]:
    (family,) = metrics.STRAGGLERS.collect()
    return {(item.labels["pod"], item.labels["slot"]): item.value for item in family.samples}


@asynchronous
async def test_the_stragglers_in_the_status_of_a_job_are_exported_with_their_factor() -> None:
    async with cluster_of_one() as harness:
        await begun(harness)
        found = [
            {"name": "digits-r0-worker-1", "factor": 1.8},
            {"name": "digits-r0-worker-0", "slot": 5, "factor": 1.5},
        ]
        await harness.server.change(
            "ImageNetJob",
            "digits",
            lambda item: item["status"]["training"].update(stragglers=found),
        )
        await harness.settle()
        harness.operator.measure()
        assert stragglers() == {("digits-r0-worker-1", ""): 1.8, ("digits-r0-worker-0", "5"): 1.5}
        await harness.end_pod("digits-r0-worker-1", code=1)
        await harness.settle()
        harness.operator.measure()
        assert stragglers() == {}


def values(gauge: Gauge) -> dict[tuple[str, ...], float]:
    (family,) = gauge.collect()
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


@asynchronous
async def test_the_time_in_the_status_of_a_job_is_exported() -> None:
    async with cluster_of_one() as harness:
        await begun(harness)
        phases = {"stepping": 1500.0, "redone": 100.0, "queueing": 400.0}

        def spend(item: dict[str, Any]) -> None:
            item["status"]["time"] |= {"phases": phases, "goodput": 0.75, "gpuHours": 4.0}

        await harness.server.change("ImageNetJob", "digits", spend)
        await harness.settle()
        harness.operator.measure()
        time, digits = harness.status()["time"], ("vision", "digits")
        seconds = values(metrics.SECONDS)
        assert seconds == {(*digits, phase): found for phase, found in time["phases"].items()}
        assert [seconds[(*digits, phase)] for phase in phases] == list(phases.values())
        assert values(metrics.GOODPUT) == {digits: time["goodput"]}
        assert time["goodput"] == pytest.approx(0.75, abs=0.01)
        assert values(metrics.GPU_HOURS) == {digits: time["gpuHours"]} == {digits: 4.0}

        await harness.server.remove("ImageNetJob", "digits")
        await harness.settle()
        harness.operator.measure()
        timed = (metrics.SECONDS, metrics.GOODPUT, metrics.GPU_HOURS)
        assert [values(gauge) for gauge in timed] == [{}, {}, {}]


def test_jobs_with_a_time_are_bounded_and_may_lack_a_part_of_it() -> None:
    def spent(number: int) -> dict[str, Any]:
        return {"phases": {"queueing": 1.5}} if number % 2 else {"goodput": 0.5, "gpuHours": 2.0}

    metrics.set_time(("vision", f"job-{number}", spent(number)) for number in range(5000))
    half = metrics.MOST_SERIES // 2
    assert values(metrics.SECONDS)["vision", "job-1", "queueing"] == 1.5
    assert values(metrics.GOODPUT)["vision", "job-0"] == 0.5
    timed = (metrics.SECONDS, metrics.GOODPUT, metrics.GPU_HOURS)
    assert [len(values(gauge)) for gauge in timed] == [half, half, half]
    metrics.set_time(())
    assert [values(gauge) for gauge in timed] == [{}, {}, {}]


def test_stragglers_are_bounded() -> None:
    many = (("vision", "digits", {"name": f"w-{number}", "factor": 2}) for number in range(5000))
    metrics.set_stragglers(many)
    assert len(stragglers()) == metrics.MOST_SERIES
    metrics.set_stragglers(())
    assert stragglers() == {}


def test_waiting_jobs_are_bounded() -> None:
    metrics.set_waiting(("vision", f"job-{number}", "Unschedulable") for number in range(5000))
    assert len(waiting_jobs()) == metrics.MOST_SERIES
    metrics.set_waiting(())
    assert waiting_jobs() == {}
