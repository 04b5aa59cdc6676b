"""The loop of a local run: observe, decide, apply, and wait until there is something new.

What the operator does in a cluster whenever an event asks for it, done here for one job until it
is finished. Nothing is polled: the wait ends when a pod ends, when a sample has come, or when the
decision itself asked to be made again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from imagenet_operator.api import KIND, ImageNetJob, Manifest
from imagenet_operator.clusters.apply import apply
from imagenet_operator.clusters.local.cluster import LocalCluster
from imagenet_operator.clusters.sampler import Sampler, targets
from imagenet_operator.reconcile import observe
from imagenet_operator.reconcile.decide import decide, is_finished
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Decision, Observed, Settings


@dataclass(frozen=True)
class View:
    """What one pass saw and decided, for a display.

    Attributes:
        job: With the newest status, written or not.
        observed: Its children.
        sample: What the members last said.
    """

    job: ImageNetJob
    observed: Observed
    sample: Sample | None


@dataclass
class Blame:
    """Which pod failed first, of those that failed last: the one whose log explains a failure."""

    culprit: str | None = None
    _seen: set[str] = field(default_factory=set)

    def look(self, children: list[Manifest]) -> None:
        """Take note of pods that failed of themselves since the last look."""
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


def run(
    cluster: LocalCluster,
    job: ImageNetJob,
    sampler: Sampler,
    settings: Settings,
    watch: Callable[[View], None],
    is_interrupted: Callable[[], bool],
) -> tuple[ImageNetJob, Blame]:
    """Work on a job until it is finished and cleaned up, or until the user interrupts.

    Args:
        cluster: This machine.
        job: With its UID, and the status of an interrupted run if there is one.
        sampler: Entered already.
        settings: Of the decisions.
        watch: Called after each pass.
        is_interrupted: Asked before each pass and each wait.

    Returns:
        The job with its last status, and whom to blame if it failed.
    """
    blame = Blame()
    while not is_interrupted():
        children = cluster.observe(job)
        blame.look(children)
        sampler.look_at(targets(children))
        was_finished = is_finished(job.status)
        job, decision = _pass(cluster, job, children, sampler.latest, settings, watch)
        if was_finished and _is_clean(decision, children):
            break
        if not is_interrupted():
            again = decision.again_after
            cluster.wait(None if again is None else again.total_seconds())
    return job, blame


def _pass(
    cluster: LocalCluster,
    job: ImageNetJob,
    children: list[Manifest],
    sample: Sample | None,
    settings: Settings,
    watch: Callable[[View], None],
) -> tuple[ImageNetJob, Decision]:
    """Decide about what was seen, act on it, and show both."""
    observed = observe.sort(
        job,
        children,
        unreachable_nodes=cluster.unreachable_nodes(),
        free=cluster.free_capacity(),
    )
    decision = decide(job, observed, sample, datetime.now(UTC), settings)
    job = apply(cluster, job, decision)
    watch(View(job.model_copy(update={"status": decision.status}), observed, sample))
    return job, decision


def _is_clean(decision: Decision, children: list[Manifest]) -> bool:
    """Whether a finished job has nothing left to do, and nothing of it is on its way out.

    The job itself is not deleted here, whatever ttlSecondsAfterFinished says: it is a file in the
    working directory, and whose that is does not depend on time.
    """
    deletes = any(reference.kind != KIND for reference in decision.delete)
    acts = decision.create or deletes or decision.patch
    return not acts and not any("deletionTimestamp" in item["metadata"] for item in children)


def _finished_at(pod: Manifest) -> str:
    statuses = pod["status"].get("containerStatuses") or [{}]
    terminated = statuses[0].get("state", {}).get("terminated", {})
    return str(terminated.get("finishedAt", ""))
