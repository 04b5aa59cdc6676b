"""Caches that lag: what they do not know of is looked up before anything hangs on it."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_operator.clusters.kubernetes.cluster import KubernetesCluster
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.reconciler import ReadConsistency, Reconciler, required
from imagenet_operator.clusters.kubernetes.recorder import Recorder
from imagenet_operator.reconcile.types import DEFAULTS, Decision, Reference
from imagenet_spec.resource.status import Status
from support.api_storage import Storage
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.operator_harness import Harness, claim, cluster_of, cluster_of_one, job, succeeded_pod

Manifest = dict[str, Any]
KEY = ("vision", "digits")
TIME = "2026-01-02T03:04:05Z"
RUNNING = {"name": "digits-r0-worker-0", "role": "worker", "phase": "Running"}
OUTCOME = {"time": TIME, "reason": "MemberFailed"}
SUCCEEDED = [
    {"type": "Succeeded", "status": "True", "reason": "A", "lastTransitionTime": TIME},
]
SUSPENDED = [
    {"type": "Suspended", "status": "True", "reason": "Suspended", "lastTransitionTime": TIME},
]
RESUMED = [
    {"type": "Suspended", "status": "False", "reason": "Resumed", "lastTransitionTime": TIME},
]


def status(**fields: Any) -> Status:
    return Status.model_validate(fields)


def attempt(number: int = 0, **fields: Any) -> Manifest:
    return {"attempt": number, "members": [RUNNING], **fields}


POD: Manifest = {"kind": "Pod", "metadata": {"name": "p"}}


@pytest.mark.parametrize(
    ("before", "after", "parts", "wanted"),
    [
        ({}, {"startTime": TIME}, {}, ReadConsistency.CACHED),
        ({}, {}, {"create": (POD,)}, ReadConsistency.LIVE_JOB),
        ({}, {"training": attempt(0)}, {"create": (POD,)}, ReadConsistency.LIVE_JOB),
        ({}, {"training": attempt(1)}, {}, ReadConsistency.LIVE_ALL),
        ({"training": attempt(0)}, {"training": attempt(1)}, {}, ReadConsistency.LIVE_ALL),
        (
            {"training": attempt(0)},
            {"training": attempt(0, imagesPerSecond=5)},
            {},
            ReadConsistency.CACHED,
        ),
        (
            {"training": attempt(0)},
            {"training": attempt(0, outcome=OUTCOME)},
            {},
            ReadConsistency.LIVE_ALL,
        ),
        (
            {"training": attempt(0)},
            {"training": attempt(0, members=[{**RUNNING, "phase": "Unknown"}])},
            {},
            ReadConsistency.LIVE_ALL,
        ),
        (
            {"training": attempt(0)},
            {"training": attempt(0, members=[{**RUNNING, "phase": "Succeeded"}])},
            {},
            ReadConsistency.CACHED,
        ),
        ({}, {"conditions": SUCCEEDED}, {}, ReadConsistency.LIVE_ALL),
        ({"conditions": SUCCEEDED}, {"conditions": SUCCEEDED}, {}, ReadConsistency.CACHED),
        ({}, {"conditions": SUSPENDED}, {}, ReadConsistency.LIVE_ALL),
        ({"conditions": SUSPENDED}, {"conditions": SUSPENDED}, {}, ReadConsistency.CACHED),
        ({"conditions": SUSPENDED}, {"conditions": RESUMED}, {}, ReadConsistency.CACHED),
        (
            {},
            {"dataset": {"key": "k", "classes": 1, "images": {}, "shards": 1}},
            {},
            ReadConsistency.LIVE_ALL,
        ),
        ({}, {}, {"delete": (Reference("Job", "digits-index", "u"),)}, ReadConsistency.LIVE_ALL),
        ({}, {}, {"delete": (Reference("Pod", "p", "u"),)}, ReadConsistency.CACHED),
        (
            {"conditions": SUCCEEDED},
            {"conditions": SUCCEEDED},
            {"delete": (Reference("ImageNetJob", "digits", "u"),)},
            ReadConsistency.LIVE_JOB,
        ),
    ],
)
def test_what_hangs_on_an_absence(
    before: Manifest, after: Manifest, parts: Manifest, wanted: ReadConsistency
) -> None:
    assert required(status(**before), Decision(status=status(**after), **parts)) is wanted


class Blind:
    """An operator whose caches hold a job, as it once was, and none of its children."""

    def __init__(self, client: Client) -> None:
        self.cluster = KubernetesCluster(client, Recorder(client), lambda key, debounce: None)
        self._reconciler = Reconciler(self.cluster, DEFAULTS, lambda key, uid: None)

    async def reconcile(self, stored: Manifest) -> None:
        self.cluster.jobs.put(stored)
        await self._reconciler.reconcile(KEY)


@contextlib.asynccontextmanager
async def blind(server: FakeApiServer) -> AsyncIterator[Blind]:
    async with Client(Connection(server.url)) as client:
        yield Blind(client)


async def bring_to_run(harness: Harness, whole: Manifest | None = None) -> Manifest:
    await harness.server.add(whole or job())
    await harness.settle()
    await harness.run_pods()
    await harness.settle()
    return stored_job(harness)


def stored_job(harness: Harness) -> Manifest:
    found = harness.server.get("ImageNetJob", "digits")
    assert found is not None
    return found


@asynchronous
async def test_pods_that_no_cache_knows_have_not_vanished() -> None:
    async with cluster_of_one() as harness, blind(harness.server) as other:
        read = await bring_to_run(harness)
        before = len(harness.server.writes())

        await other.reconcile(read)

        assert len(harness.server.writes()) == before
        assert harness.status()["training"].get("outcome") is None


@asynchronous
async def test_a_pod_that_has_vanished_ends_the_attempt() -> None:
    async with cluster_of_one() as harness, blind(harness.server) as other:
        read = await bring_to_run(harness)
        del harness.server.storage.objects["Pod", "vision", "digits-r0-server-1"]

        await other.reconcile(read)

        assert harness.status()["training"]["outcome"]["reason"] == "Vanished"
        assert harness.status()["disruptions"] == 1


@asynchronous
async def test_a_job_is_not_suspended_while_pods_that_no_cache_knows_still_end() -> None:
    """Once it says Suspended, its workers may change, and another queue may use its room."""
    async with cluster_of_one() as harness, blind(harness.server) as other:
        await bring_to_run(harness)
        await harness.server.change(
            "ImageNetJob", "digits", lambda item: item["spec"].update(runPolicy={"suspend": True})
        )
        await harness.settle()
        assert len(harness.pods()) == 5

        await other.reconcile(stored_job(harness))

        assert "Suspended" not in {item["type"] for item in harness.status()["conditions"]}
        await harness.finish_deleting()
        await harness.settle()
        assert harness.condition("Suspended")["status"] == "True"


@asynchronous
async def test_a_job_is_not_suspended_while_pods_end_on_a_node_that_is_back() -> None:
    """A pod that is being deleted counts as gone on a lost node, and the node's watch may lag."""
    async with cluster_of_one() as harness:
        await bring_to_run(harness)
        await harness.server.change(
            "Node", "n1", lambda item: item["status"]["conditions"][0].update(status="Unknown"), ""
        )
        await harness.settle()
        return_silently(harness.server.storage, "n1")
        await harness.server.change(
            "ImageNetJob", "digits", lambda item: item["spec"].update(runPolicy={"suspend": True})
        )
        await harness.settle()

        assert len(harness.pods()) == 5
        assert "Suspended" not in {item["type"] for item in harness.status()["conditions"]}
        await harness.finish_deleting()
        await harness.settle()
        assert harness.condition("Suspended")["status"] == "True"


def return_silently(storage: Storage, name: str) -> None:
    """Make a node ready again without an event."""
    node = storage.objects["Node", "", name]
    node["status"]["conditions"][0]["status"] = "True"
    storage.version += 1
    node["metadata"]["resourceVersion"] = str(storage.version)


@asynchronous
async def test_a_job_that_has_moved_on_does_not_get_its_past_again() -> None:
    """It was read when its first attempt was about to begin; since then its third has."""
    async with cluster_of_one() as harness, blind(harness.server) as other:
        await harness.server.add(job())
        await harness.server.until(lambda: harness.server.get("ImageNetJob", "digits") is not None)
        await harness.server.until(lambda: "conditions" in harness.status())
        early = stored_job(harness)
        await harness.settle()
        for _ in range(2):
            await harness.run_pods()
            await harness.settle()
            await harness.end_pod(harness.pods()[-1], code=1)
            await harness.settle()
            await harness.finish_deleting()
            await harness.settle()
        assert all("-r2-" in name for name in harness.pods())
        pods = harness.pods()

        with contextlib.suppress(ApiError):
            await other.reconcile(early)

        assert harness.pods() == pods
        assert harness.status()["training"]["attempt"] == 2


@asynchronous
async def test_an_index_is_not_made_again_because_its_pod_is_not_known_yet() -> None:
    whole = job()
    whole["spec"]["dataset"] = {
        "source": {"volume": {"claimName": "raw", "path": "a.tar"}},
        "volume": {"claimName": "shared"},
    }
    found = '{"key": "0123456789abcdef", "classes": 9, "images": {"train": 5}, "shards": 2}'
    async with cluster_of(claim(name="raw")) as server, blind(server) as other:
        await server.add(whole)
        read = server.get("ImageNetJob", "digits")
        assert read is not None
        await other.reconcile(read)
        index = server.get("Job", "digits-index")
        assert index is not None
        await server.add(succeeded_pod(index, found))
        complete = {"conditions": [{"type": "Complete", "status": "True"}]}
        done = await server.change("Job", "digits-index", lambda item: item.update(status=complete))
        other.cluster.children["Job"].put(done)

        current = server.get("ImageNetJob", "digits")
        assert current is not None
        await other.reconcile(current)

        after = server.get("ImageNetJob", "digits")
        assert after is not None
        assert after["status"]["dataset"]["key"] == "0123456789abcdef"
        assert server.get("Job", "digits-index") is not None
        assert server.get("Job", "digits-pack") is not None


@pytest.mark.parametrize(("by_now", "is_kept"), [(60, False), (10**9, True), (None, True)])
@asynchronous
async def test_a_job_is_deleted_by_the_time_to_live_that_it_has_now(
    by_now: int | None, is_kept: bool
) -> None:
    """It ended long ago; its TTL was changed, and no watch reported it."""
    whole = job(run_policy={"ttlSecondsAfterFinished": 60})
    whole["status"] = {
        "observedGeneration": 1,
        "startTime": TIME,
        "completionTime": TIME,
        "phase": "Succeeded",
        "conditions": SUCCEEDED,
    }
    async with FakeApiServer() as server, blind(server) as other:
        read = await server.add(whole)
        policy = {} if by_now is None else {"ttlSecondsAfterFinished": by_now}
        await server.change("ImageNetJob", "digits", lambda it: it["spec"].update(runPolicy=policy))

        await other.reconcile(read)

        assert (server.get("ImageNetJob", "digits") is not None) is is_kept
