"""The run of one job on this machine, from its start until it is finished and cleaned up.

`cli.run` starts it. The work is that of the operator: the same `loop`, `sampler`, decisions and
`apply`. Only the ends differ: a run has one job, ends with it or with an interrupt, and an error of
this machine ends it instead of being retried.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from imagenet_operator.clusters.apply import apply
from imagenet_operator.clusters.interface import JobKey, key_of
from imagenet_operator.clusters.local.cluster import LocalCluster
from imagenet_operator.clusters.loop import Loop
from imagenet_operator.clusters.sampler import Sampler
from imagenet_operator.reconcile import observe, uploads
from imagenet_operator.reconcile.decide import decide, is_finished
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Observed, ReconcileSettings
from imagenet_spec.resource import KIND, ImageNetJob, Manifest

_SAMPLE_SECONDS = 1.0
_SAMPLE_TIMEOUT_SECONDS = 2.0


@dataclass(frozen=True)
class View:
    """What one reconcile saw and decided, for a display."""

    job: ImageNetJob
    observed: Observed
    sample: Sample | None


@dataclass
class FirstFailure:
    """The pod that failed first, of those that failed last: its log explains the failure."""

    culprit: str | None = None
    _seen: set[str] = field(default_factory=set)

    def observe(self, children: list[Manifest]) -> None:
        """Record pods that have failed since the last call and were not being deleted."""
        failed = {
            pod["metadata"]["uid"]: pod
            for pod in children
            if pod["kind"] == "Pod"
            and pod["status"].get("phase") == "Failed"
            and "deletionTimestamp" not in pod["metadata"]
        }
        new = [pod for uid, pod in failed.items() if uid not in self._seen]
        self._seen |= failed.keys()
        if new:
            self.culprit = min(new, key=_finished_at)["metadata"]["name"]


class LocalRun:
    """One job on this machine.

    The job has a UID, and the status of an interrupted run if there is one. `show` is called after
    each reconcile; `is_interrupted` is asked before and after it.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        job: ImageNetJob,
        settings: ReconcileSettings,
        show: Callable[[View], None],
        is_interrupted: Callable[[], bool],
    ) -> None:
        self.job = job
        self.failure = FirstFailure()
        self._cluster = cluster
        self._settings = settings
        self._show = show
        self._is_interrupted = is_interrupted
        self._key = key_of(job)
        self._loop = Loop(self._reconcile)
        self._sampler = Sampler(
            self, _SAMPLE_SECONDS, _SAMPLE_TIMEOUT_SECONDS, self._loop.enqueue, only_visible=False
        )
        self._children: list[Manifest] = []
        self._error: Exception | None = None
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Work on the job until it is finished and cleaned up, or until the user interrupts."""
        self._cluster.changed = lambda: self._loop.enqueue(self._key)
        self._loop.enqueue(self._key)
        work = (self._cluster.run(), self._loop.run(), self._sampler.run(), self._ended.wait())
        tasks = [asyncio.create_task(part) for part in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._cluster.changed = lambda: None
        if self._error is not None:
            raise self._error

    def jobs_with_pods(self) -> list[JobKey]:
        return [self._key]

    def pods_of(self, key: JobKey) -> tuple[str, list[Manifest]] | None:
        pods = [child for child in self._children if child["kind"] == "Pod"]
        return self.job.metadata.uid, pods

    async def _reconcile(self, key: JobKey) -> timedelta | None:
        try:
            return None if self._is_interrupted() else await self._reconcile_once()
        except Exception as error:
            self._error = error
            self._ended.set()
            return None
        finally:
            if self._is_interrupted():
                self._ended.set()

    async def _reconcile_once(self) -> timedelta | None:
        job, sample = self.job, self._sampler.latest(self._key, self.job.metadata.uid)
        self._children = await self._cluster.observe(job)
        self.failure.observe(self._children)
        observed = observe.sort(
            job,
            self._children,
            unreachable_nodes=await self._cluster.unreachable_nodes(job),
            free=await self._cluster.free_capacity(job),
        )
        decision = decide(job, observed, sample, datetime.now(UTC), self._settings)
        self.job = (await apply(self._cluster, job, decision)).job
        self._show(View(job.model_copy(update={"status": decision.status}), observed, sample))
        # The job itself is never deleted, despite ttlSecondsAfterFinished: it is a file in the
        # user's working directory.
        deletes = any(reference.kind != KIND for reference in decision.delete)
        is_clean = not (decision.create or deletes or decision.patch) and not any(
            "deletionTimestamp" in child["metadata"] for child in self._children
        )
        if is_finished(job.status) and not uploads.pending(job, observed) and is_clean:
            self._ended.set()
        return decision.requeue_after


def _finished_at(pod: Manifest) -> str:
    statuses = pod["status"].get("containerStatuses") or [{}]
    terminated = statuses[0].get("state", {}).get("terminated", {})
    return str(terminated.get("finishedAt", ""))
