"""What the dashboard reads of a cluster: once for all viewers, and while it does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from imagenet_operator.cli import report_page
from imagenet_operator.cli.dashboard.readings import JOBS_MAXIMUM, Readings
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.page.contents import Contents
from imagenet_operator.sdk.background import run
from imagenet_operator.sdk.blocking import Client
from imagenet_spec.curves import all_epochs
from imagenet_spec.events import EpochFinished, Event, Progress, Started, Validated
from imagenet_spec.resource import ImageNetJob
from support.api_requests import Refusal
from support.asynchronous import asynchronous, until
from support.client_jobs import UserCluster, add_pod, condition, manifest, set_status
from support.fake_api_server import FakeApiServer

RANK0 = "digits-r0-worker-0"
RIGHTS = {
    (objects.JOB.group, objects.JOB.plural): frozenset({"get", "list"}),
    ("", "pods"): frozenset({"list"}),
    ("", "pods/log"): frozenset({"get"}),
    ("", "events"): frozenset({"list"}),
}
"""Those that docs/dashboard.md names."""


def contents(job: ImageNetJob) -> Contents:
    return report_page.of_cluster(job, {})


@pytest.fixture
def server(cluster: UserCluster) -> FakeApiServer:
    """A cluster with a running job whose log has 1,000 lines."""
    cluster.add_job(phase="Running", training={"attempt": 0})
    run(add_pod(cluster.server, RANK0))
    cluster.server.timed_logs[RANK0] = [
        (f"2026-01-01T00:{number // 60:02}:{number % 60:02}.0Z", f"line {number}")
        for number in range(1000)
    ]
    return cluster.server


@pytest.fixture
def client(server: FakeApiServer) -> Iterator[Client]:
    """On the loop that all clients share, as that of `imagenetctl`; so is the server."""
    with Client(namespace="vision") as client:
        yield client


async def add_event(server: FakeApiServer, uid: str, reason: str) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": reason.lower(), "namespace": "vision"},
        "involvedObject": {"uid": uid},
        "type": "Warning",
        "reason": reason,
        "message": "a worker was preempted",
        "lastTimestamp": "2026-01-02T03:04:05Z",
    }
    await server.add(event)


def asked(server: FakeApiServer, verb: str, kind: str = "ImageNetJob") -> int:
    return sum(item.verb == verb and item.kind == kind for item in server.requests)


@asynchronous
async def test_viewers_share_a_reading(server: FakeApiServer, client: Client) -> None:
    readings = Readings(client.jobs, contents, fresh_seconds=3600.0)
    before = asked(server, "list"), asked(server, "get")
    lists = await asyncio.gather(*(readings.listed() for _ in range(100)))
    views = await asyncio.gather(*(readings.job("digits") for _ in range(100)))
    assert {one.number for one in lists} == {1}
    assert {one and one.number for one in views} == {2}
    # One list, and one reading of the job, in which log, events and curves ask for it too.
    assert (asked(server, "list"), asked(server, "get")) == (before[0] + 1, before[1] + 5)


@asynchronous
async def test_a_job_has_events_and_the_end_of_its_log(
    server: FakeApiServer, client: Client
) -> None:
    readings = Readings(client.jobs, contents, fresh_seconds=0.0)
    uid = run(client.jobs.get("digits")).metadata.uid
    run(add_event(server, uid, "Restarting"))
    reading = await readings.job("digits")
    assert reading is not None and reading.value is not None
    view = reading.value
    assert [line.text for line in view.log] == [f"line {number}" for number in range(800, 1000)]
    assert [event.reason for event in view.events] == ["Restarting"]
    assert view.absent == {}
    assert "on the volume of the claim" in view.contents.absent["runs"]


@asynchronous
async def test_the_curves_of_a_cluster_come_from_the_log(
    server: FakeApiServer, client: Client
) -> None:
    said: list[Event] = [
        Started(0, 2, 0, 0, None, 20),
        Progress(0, 10, 2400.0, 5.1, 0.1, None, 0.1),
        EpochFinished(0, 360.0, 4800.0, 5.0, 0.2, 0.4),
        Validated(0, 120, 0.25, 0.5, 4.9),
    ]
    server.timed_logs[RANK0] = [
        (f"2026-01-01T00:0{minute}:00.0Z", f"2026-01-01 00:00:00,000 INFO {event.sentence()}")
        for minute, event in enumerate(said)
    ]
    readings = Readings(client.jobs, contents, fresh_seconds=0.0)
    reading = await readings.job("digits")
    assert reading is not None and reading.value is not None
    (run_of_log,) = reading.value.contents.runs
    (epoch,) = all_epochs([run_of_log])
    assert (epoch.number, epoch.loss, epoch.top1) == (1, 5.0, 0.2)
    assert epoch.validation is not None and epoch.validation.top1 == 0.25
    assert len(run_of_log.progress) == 1


@asynchronous
async def test_a_missing_right_leaves_out_one_part(server: FakeApiServer, client: Client) -> None:
    readings = Readings(client.jobs, contents, fresh_seconds=0.0)
    server.verbs = {**server.verbs, ("", "pods/log"): frozenset(), ("", "events"): frozenset()}
    reading = await readings.job("digits")
    assert reading is not None and reading.value is not None and reading.trouble is None
    assert "list events" in reading.value.absent["events"]
    assert "get pods/log" in reading.value.absent["log"]


@asynchronous
async def test_an_outage_keeps_the_last_values(server: FakeApiServer, client: Client) -> None:
    readings = Readings(client.jobs, contents, fresh_seconds=0.0)
    assert (await readings.job("digits")) is not None
    server.refuse(Refusal(503, "ServiceUnavailable", "the server is away"))

    async def has_trouble() -> bool:
        reading = await readings.job("digits")
        assert reading is not None and reading.value is not None
        return reading.trouble is not None

    await until(has_trouble, 0.01)
    first = await readings.job("digits")
    assert first is not None and first.trouble is not None
    assert "the server is away" in first.trouble.message
    assert not first.trouble.is_gone
    assert first.at is not None and first.at < first.trouble.since
    listed = await readings.listed()
    assert listed.value is not None
    server.faults.clear()

    async def is_over() -> bool:
        return not await has_trouble()

    await until(is_over, 0.01)


@asynchronous
async def test_a_first_reading_that_fails_says_why(server: FakeApiServer, client: Client) -> None:
    readings = Readings(client.jobs, contents, fresh_seconds=0.0)
    server.verbs = {}
    reading = await readings.listed()
    assert reading.value is None and reading.at is None
    assert reading.trouble is not None and "list imagenetjobs" in reading.trouble.message
    assert await readings.job("digits") is None


@asynchronous
async def test_no_name_is_that_of_the_list(server: FakeApiServer, client: Client) -> None:
    readings = Readings(client.jobs, contents, fresh_seconds=0.0)
    assert (await readings.listed()).value is not None
    assert await readings.job("") is None
    assert (await readings.listed()).trouble is None


@asynchronous
async def test_a_failure_stays_with_its_job(server: FakeApiServer, client: Client) -> None:

    def broken(job: ImageNetJob) -> Contents:
        raise KeyError(job.metadata.name)

    readings = Readings(client.jobs, broken)
    reading = await readings.job("digits")
    assert reading is not None and reading.trouble is not None
    assert "KeyError" in reading.trouble.message
    assert (await readings.listed()).trouble is None


@asynchronous
async def test_a_finished_job_is_not_read_again(server: FakeApiServer, client: Client) -> None:
    readings = Readings(client.jobs, contents, fresh_seconds=0.0)
    run(
        set_status(
            server, phase="Succeeded", conditions=[condition("Succeeded")], training={"attempt": 0}
        )
    )
    first = await readings.job("digits")

    async def looked_again() -> bool:
        await readings.job("digits")
        return asked(server, "get") > 10

    await until(looked_again, 0.01)
    # For its end and for the curves.
    assert sum(item.subresource == "log" for item in server.requests) == 2
    again = await readings.job("digits")
    assert first is not None and again is not None and again.number == first.number


@asynchronous
async def test_what_a_finished_job_lacked_is_read_again(
    server: FakeApiServer, client: Client
) -> None:
    readings = Readings(client.jobs, contents, fresh_seconds=0.0)
    run(set_status(server, phase="Succeeded", conditions=[condition("Succeeded")], training={}))
    verbs = server.verbs
    server.verbs = {**verbs, ("", "pods/log"): frozenset(), ("", "events"): frozenset()}
    first = await readings.job("digits")
    assert first is not None and first.value is not None
    assert set(first.value.absent) == {"events", "log"}
    server.verbs = verbs
    uid = first.value.contents.job.metadata.uid
    run(add_event(server, uid, "Succeeded"))

    async def is_whole() -> bool:
        reading = await readings.job("digits")
        assert reading is not None and reading.value is not None
        return bool(reading.value.log) and not reading.value.absent

    await until(is_whole, 0.01)
    run(add_event(server, uid, "Uploaded"))

    async def has_both() -> bool:
        reading = await readings.job("digits")
        assert reading is not None and reading.value is not None
        return len(reading.value.events) == 2

    await until(has_both, 0.01)


@asynchronous
async def test_a_page_creates_no_pod_to_read_a_volume(
    server: FakeApiServer, client: Client
) -> None:
    run(set_status(server, phase="Running", training={"attempt": 1}))
    run(server.remove("Pod", RANK0))
    run(add_pod(server, "digits-r1-worker-0"))
    said = f"2026-01-01 00:00:00,000 INFO {Started(0, 2, 0, 0, None, 20).sentence()}"
    server.timed_logs["digits-r1-worker-0"] = [("2026-01-01T00:00:00.0Z", said)]
    server.verbs = RIGHTS
    reading = await Readings(client.jobs, contents).job("digits")
    assert reading is not None and reading.value is not None and not reading.value.absent
    assert len(reading.value.contents.runs) == 1

    ended = [condition("Succeeded")]
    run(set_status(server, phase="Succeeded", conditions=ended, training={"attempt": 1}))
    run(server.remove("Pod", "digits-r1-worker-0"))
    reading = await Readings(client.jobs, contents).job("digits")
    assert reading is not None and reading.value is not None
    assert "rank 0 leaves" in reading.value.absent["log"]


@asynchronous
async def test_few_jobs_are_kept(server: FakeApiServer, client: Client) -> None:
    names = [f"job-{number}" for number in range(JOBS_MAXIMUM + 20)]
    for name in names:
        document: dict[str, Any] = manifest()
        document["metadata"].update(name=name, namespace="vision")
        run(server.add(document))
    read: list[str] = []

    def counted(job: ImageNetJob) -> Contents:
        read.append(job.metadata.name)
        return contents(job)

    readings = Readings(client.jobs, counted, fresh_seconds=3600.0)
    for name in names:
        await readings.job(name)
    await readings.job(names[-1])
    assert read == names
    await readings.job(names[0])
    assert read == [*names, names[0]]
