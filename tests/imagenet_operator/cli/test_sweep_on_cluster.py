"""The points of a sweep on a cluster: an API server, of which the test plays the operator."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from imagenet_operator.cli.sweep import Outcome
from imagenet_operator.cli.sweep_on_cluster import OnCluster
from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.scaling import points, variants
from imagenet_operator.scaling.points import Point
from imagenet_operator.scaling.table import Measured
from imagenet_operator.sdk import submission
from imagenet_spec.errors import ImageNetJobError
from support import job_table
from support.api_requests import Refusal, Request
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.sentences import assert_says

Manifest = dict[str, Any]
JOB = objects.JOB.name
CLAIM = "PersistentVolumeClaim"
NOW = datetime(2026, 1, 1, tzinfo=UTC).isoformat()
TRAINED: Manifest = {
    "training": {
        "attempt": 0,
        "imagesPerSecond": 200.0,
        "clock": {"seconds": 45},
        "accuracy": {"train": 0.99, "validation": 0.9611},
    },
}


def manifest(**changes: Any) -> Manifest:
    """A manifest as a user writes it."""
    found = job_table.manifest(**changes)
    found["metadata"] = {"name": "digits"}
    return found


def sweep(**changes: Any) -> tuple[Point, ...]:
    chosen = [variants.read("parameterServer")]
    wanted = points.sizes_of_workers((1, 2))
    return points.sweep(manifest(**changes), wanted, chosen, submission.problems).points


class SweepRunner:
    """An API server, and a sweep that runs on it in another thread."""

    def __init__(self, server: FakeApiServer, outage_seconds: float = 60.0, **changes: Any) -> None:
        self.server = server
        self.runner = OnCluster(
            Connection(server.url),
            "vision",
            manifest(**changes),
            "production",
            poll_seconds=0.001,
            outage_seconds=outage_seconds,
        )

    async def get_ready(self, found: tuple[Point, ...]) -> None:
        await asyncio.to_thread(self.runner.get_ready, found)

    async def run(self, point: Point) -> Outcome:
        return await asyncio.to_thread(self.runner.run, point)

    def refuse(self, times: int, *codes: int) -> list[Request]:
        """Answer so many requests for a job with these codes in turn; 0 hangs up.

        Returns:
            The requests that have been refused, as they come.
        """
        refused: list[Request] = []

        async def fault(asked: Request) -> None:
            if asked.kind != JOB or len(refused) >= times:
                return
            code = codes[len(refused) % len(codes)]
            refused.append(asked)
            if code == 0:
                raise asyncio.CancelledError
            raise Refusal(code, "Refused", "not now")

        self.server.faults.append(fault)
        return refused

    async def finish(self, name: str, kind: str, **status: Any) -> None:
        """End a job, as the operator would."""
        condition = {"type": kind, "status": "True", "reason": "R", "message": "why"}
        conditions = [{**condition, "lastTransitionTime": NOW}]

        def edit(job: Manifest) -> None:
            job["status"] = {"conditions": conditions, **status}

        await self.server.until(lambda: self.server.get(JOB, name))
        await self.server.change(JOB, name, edit)


@contextlib.asynccontextmanager
async def sweep_runner(outage_seconds: float = 60.0, **changes: Any) -> AsyncIterator[SweepRunner]:
    async with FakeApiServer() as server:
        # A person with a kubeconfig makes the jobs that an operator may not.
        server.verbs[objects.JOB.group, objects.JOB.plural] |= {"create"}
        yield SweepRunner(server, outage_seconds, **changes)


@asynchronous
async def test_a_point_is_made_waited_for_and_read() -> None:
    async with sweep_runner() as here:
        (first, _) = found = sweep()
        await here.get_ready(found)

        outcome, _ = await asyncio.gather(
            here.run(first), here.finish(first.name, "Succeeded", **TRAINED)
        )

        assert outcome.measured == Measured(outcome.point, 45, 200.0, 0.9611)
        assert not outcome.is_old
        stored = here.server.get(JOB, first.name)
        assert stored is not None
        assert stored["metadata"]["labels"] == {points.SWEEP: "digits"}
        assert stored["spec"]["dataset"]["volume"] == {"claimName": "digits-dataset"}


@asynchronous
async def test_all_points_share_a_claim_that_nobody_owns() -> None:
    changes: Manifest = {"run_policy": {"retentionPolicy": "Delete"}}
    async with sweep_runner(**changes) as here:
        for _ in range(2):
            await here.get_ready(sweep(**changes))

        (claim,) = here.server.all(CLAIM)
        assert claim["metadata"]["name"] == "digits-dataset"
        assert claim["metadata"]["namespace"] == "vision"
        assert "ownerReferences" not in claim["metadata"]
        assert claim["spec"]["resources"]["requests"]["storage"] == "200Gi"


@asynchronous
async def test_a_claim_that_exists_is_not_made() -> None:
    changes: Manifest = {"dataset": {"volume": {"claimName": "mine"}}}
    async with sweep_runner(**changes) as here:
        await here.get_ready(sweep(**changes))
        assert here.server.all(CLAIM) == []


@asynchronous
async def test_a_point_that_is_done_is_read_and_one_that_runs_is_waited_for() -> None:
    async with sweep_runner() as here:
        first, second = sweep()
        for point in (first, second):
            metadata = {**point.manifest["metadata"], "namespace": "vision"}
            await here.server.add({**point.manifest, "metadata": metadata})
        await here.finish(first.name, "Succeeded", **TRAINED)
        await here.get_ready((first, second))

        old = await here.run(first)
        gone_on, _ = await asyncio.gather(
            here.run(second), here.finish(second.name, "Succeeded", **TRAINED)
        )

        assert old.is_old
        assert old.measured == Measured(old.point, 45, 200.0, 0.9611)
        assert gone_on.measured == Measured(gone_on.point, 45, 200.0, 0.9611)
        assert [item.verb for item in here.server.writes() if item.kind == JOB] == []


@asynchronous
async def test_a_point_that_fails_says_why() -> None:
    async with sweep_runner() as here:
        (first, _) = sweep()

        outcome, _ = await asyncio.gather(here.run(first), here.finish(first.name, "Failed"))

        assert outcome.failure == f"{first.name} failed: R: why"
        assert outcome.measured is None


@asynchronous
async def test_a_point_that_is_deleted_meanwhile_is_not_waited_for() -> None:
    async with sweep_runner() as here:
        (first, _) = sweep()

        async def delete() -> None:
            await here.server.until(lambda: here.server.get(JOB, first.name))
            await here.server.remove(JOB, first.name)

        outcome, _ = await asyncio.gather(here.run(first), delete())

        assert outcome.failure == f"{first.name} was deleted"


@asynchronous
async def test_the_wait_goes_on_where_the_api_server_is_away_for_a_while() -> None:
    async with sweep_runner() as here:
        (first, _) = sweep()
        running = asyncio.create_task(here.run(first))
        await here.server.until(lambda: here.server.get(JOB, first.name))

        refused = here.refuse(12, 503, 0, 401, 429, 500, 502)
        outcome, _ = await asyncio.gather(running, here.finish(first.name, "Succeeded", **TRAINED))

        assert outcome.measured == Measured(outcome.point, 45, 200.0, 0.9611)
        assert len(refused) == 12


@asynchronous
async def test_a_job_is_made_once_though_the_answer_to_its_making_is_lost() -> None:
    async with sweep_runner() as here:
        (first, _) = sweep()
        here.refuse(3, 503)
        create = here.server.add

        async def lose_the_answer(asked: Request) -> None:
            if asked.verb == "create":
                here.server.faults.remove(lose_the_answer)
                await create(asked.body)
                raise asyncio.CancelledError

        here.server.faults.append(lose_the_answer)

        outcome, _ = await asyncio.gather(
            here.run(first), here.finish(first.name, "Succeeded", **TRAINED)
        )

        assert outcome.measured is not None and not outcome.is_old


@asynchronous
async def test_the_wait_ends_where_nothing_good_comes_for_long() -> None:
    async with sweep_runner(outage_seconds=0.05) as here:
        (first, _) = sweep()
        here.refuse(1_000_000, 503)

        with pytest.raises(ClusterError) as caught:
            await here.run(first)

        jobs = f"/apis/{objects.JOB.api_version}/namespaces/vision/{objects.JOB.plural}"
        said = str(caught.value)
        assert_says(said, f"GET {jobs}/{first.name}", "0.05 seconds", "same command")


@pytest.mark.parametrize("code", [400, 403, 422])
@asynchronous
async def test_a_refusal_that_stays_ends_the_wait_at_once(code: int) -> None:
    async with sweep_runner() as here:
        (first, _) = sweep()
        refused = here.refuse(1_000_000, code)

        with pytest.raises(ClusterError, match=r"not now$"):
            await here.run(first)

        assert len(refused) == 1


@asynchronous
async def test_another_job_under_a_points_name_is_not_waited_for() -> None:
    async with sweep_runner() as here:
        (first, _) = sweep()

        async def replace() -> None:
            await here.server.until(lambda: here.server.get(JOB, first.name))
            await here.server.change(
                JOB, first.name, lambda job: job["spec"]["training"].update(epochs=1)
            )

        outcome, _ = await asyncio.gather(here.run(first), replace())

        assert outcome.failure == f"{first.name} was replaced by another job"


def test_ctrl_c_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = OnCluster(Connection("http://127.0.0.1:1"), "vision", manifest(), "production")

    async def interrupted(point: Point) -> Outcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "_run", interrupted)
    assert runner.run(sweep()[0]).is_interrupted


@asynchronous
async def test_jobs_in_the_way_are_named_before_anything_is_made() -> None:
    async with sweep_runner() as here:
        first, second = sweep()
        for point in (first, second):
            metadata = {**point.manifest["metadata"], "namespace": "vision"}
            await here.server.add({**point.manifest, "metadata": metadata})
        await here.finish(first.name, "Failed")
        await here.server.change(
            JOB, second.name, lambda job: job["spec"]["training"].update(epochs=1)
        )

        with pytest.raises(ImageNetJobError) as caught:
            await here.get_ready((first, second))

        message = str(caught.value)
        assert f"{first.name} (it has failed), {second.name} (another job has" in message
        delete = "kubectl delete imagenetjob --context production --namespace vision"
        assert f"{delete} --ignore-not-found {first.name} {second.name}" in message
        assert here.server.all(CLAIM) == []


def test_failed_points_are_run_again_once_they_are_deleted() -> None:
    runner = OnCluster(Connection("http://127.0.0.1:1"), "vision", manifest(), "production")
    place = "--context production --namespace vision"
    delete = f"kubectl delete imagenetjob {place} --ignore-not-found one other"
    assert_says(runner.remedy(["one", "other"]), delete, "run the same command again")


@asynchronous
async def test_a_job_that_left_no_last_words_has_its_time_alone() -> None:
    bare = {"training": {"attempt": 0, "clock": {"seconds": 45}}}
    async with sweep_runner() as here:
        (first, _) = sweep()

        outcome, _ = await asyncio.gather(
            here.run(first), here.finish(first.name, "Succeeded", **bare)
        )

        assert outcome.measured == Measured(outcome.point, 45, None, None)


def test_a_cluster_that_cannot_be_reached_is_a_clear_error() -> None:
    runner = OnCluster(Connection("http://127.0.0.1:1"), "vision", manifest(), "production")
    with pytest.raises(ClusterError, match=f"GET /apis/{objects.JOB.group}/"):
        runner.get_ready(sweep())
