"""What Kueue does to the objects of a job, and a simulated cluster that does it on demand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from imagenet_operator.reconcile.types import DEFAULTS, ReconcileSettings
from imagenet_spec.resource import queue
from support.job_table import manifest
from support.simulated_cluster import SimulatedCluster
from support.simulated_world import Manifest

QUEUE = {queue.NAME: "lq"}
_GATE = "kueue.x-k8s.io/admission"
PREEMPTED = "Preempted to accommodate a workload (UID: 7) due to prioritization in the ClusterQueue"


def hold(created: Manifest, *, manages_all: bool = False) -> None:
    """Hold back what has a queue, as Kueue's webhooks do: a Job is suspended, a pod has a gate.

    Args:
        created: An object.
        manages_all: Whether what has no queue is held, too.
    """
    if not (manages_all or is_queued(created)):
        return
    if created["kind"] == "Job":
        created["spec"]["suspend"] = True
    elif created["kind"] == "Pod":
        created["spec"].setdefault("schedulingGates", []).append({"name": _GATE})


def is_queued(item: Manifest) -> bool:
    """Whether an object has a queue."""
    return queue.NAME in (item["metadata"].get("labels") or {})


def is_gated(pod: Manifest) -> bool:
    """Whether Kueue holds a pod back."""
    gates = pod["spec"].get("schedulingGates") or ()
    return any(gate["name"] in queue.GATES for gate in gates)


def whole_groups(pods: Iterable[Manifest]) -> list[list[Manifest]]:
    """Return the groups of which all pods are there; no other one is admitted."""
    groups = defaultdict(list)
    for pod in pods:
        if (group := pod["metadata"]["labels"].get(queue.GROUP)) is not None:
            groups[group].append(pod)
    return [
        found
        for found in groups.values()
        if len(found) == int(found[0]["metadata"]["annotations"][queue.GROUP_SIZE])
    ]


def open_gate(pod: Manifest) -> None:
    """Admit a pod; what is known of it as it was created stays as it is."""
    gates = pod["spec"].get("schedulingGates") or ()
    left = [gate for gate in gates if gate["name"] not in queue.GATES]
    pod["spec"] = {**pod["spec"], "schedulingGates": left}


def mark_evicted(pod: Manifest, message: str) -> None:
    """Say in a pod's condition that it is evicted, as Kueue does before it deletes the pod."""
    condition = {"type": queue.EVICTED, "status": "True", "message": message}
    pod["status"].setdefault("conditions", []).append(condition)


class QueuedCluster(SimulatedCluster):
    """One job in a queue; everything waits until `admit`.

    Args:
        nodes: As of `SimulatedCluster`.
        settings: As of `SimulatedCluster`.
        labels: Of the job.
        manages_all: Whether Kueue holds what names no queue, too, as its configuration
            manageJobsWithoutQueueName says. That is never admitted.
        run_policy: Fields of the job.
    """

    def __init__(
        self,
        nodes: dict[str, int],
        settings: ReconcileSettings = DEFAULTS,
        labels: Mapping[str, str] = QUEUE,
        *,
        manages_all: bool = False,
        **run_policy: Any,
    ) -> None:
        self._manages_all = manages_all
        document = manifest(run_policy=run_policy)
        document["metadata"]["labels"] = dict(labels)
        super().__init__(document, nodes, settings)

    def _add(self, manifest: Manifest) -> Manifest:
        added = super()._add(manifest)
        hold(added, manages_all=self._manages_all)
        return added

    def turn(self) -> None:
        """Let time pass; Kueue suspends again what is not its to resume."""
        super().turn()
        for job in self.unfinished_jobs() if self._manages_all else ():
            if not is_queued(job):
                job["spec"]["suspend"] = True

    def held(self) -> list[Manifest]:
        """Return the Jobs and pods that wait for quota."""
        jobs = [job for job in self.unfinished_jobs() if job["spec"].get("suspend")]
        return [*jobs, *(pod for pod in self.members() if is_gated(pod))]

    def admit(self) -> None:
        """Give quota to all that waits; a group is admitted as a whole."""
        for group in whole_groups(self.members()):
            for pod in group:
                open_gate(pod)
        for job in filter(is_queued, self.unfinished_jobs()):
            job["spec"]["suspend"] = False

    def evict_all(self, message: str = PREEMPTED) -> None:
        """Take the quota back: Kueue says so in a condition, and deletes the pods."""
        for pod in self.members():
            if not is_gated(pod) and not self.is_finished(pod):
                mark_evicted(pod, message)
                self.terminate(pod)
        for job in self.unfinished_jobs():
            job["spec"]["suspend"] = True
