"""A simulated cluster with Kueue: it holds back what has a queue, admits it, and evicts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from imagenet_operator.api import queue
from imagenet_operator.reconcile.settings import DEFAULTS, ReconcileSettings
from support.job_table import manifest
from support.simulated_cluster import SimulatedCluster
from support.simulated_world import Manifest

QUEUE = {queue.NAME: "lq"}
PREEMPTED = "Preempted to accommodate a workload (UID: 7) due to prioritization in the ClusterQueue"


class QueuedCluster(SimulatedCluster):
    """One job in a queue; everything waits until `admit`.

    As Kueue's webhooks do, a Job is created suspended, and a pod with a gate.
    """

    def __init__(
        self,
        nodes: dict[str, int],
        settings: ReconcileSettings = DEFAULTS,
        labels: Mapping[str, str] = QUEUE,
        **run_policy: Any,
    ) -> None:
        document = manifest(run_policy=run_policy)
        document["metadata"]["labels"] = dict(labels)
        super().__init__(document, nodes, settings)

    def _add(self, manifest: Manifest) -> Manifest:
        added = super()._add(manifest)
        if queue.NAME in (added["metadata"].get("labels") or {}):
            if added["kind"] == "Job":
                added["spec"]["suspend"] = True
            elif added["kind"] == "Pod":
                gates = added["spec"].setdefault("schedulingGates", [])
                gates.append({"name": "kueue.x-k8s.io/admission"})
        return added

    def held(self) -> list[Manifest]:
        """Return the Jobs and pods that wait for quota."""
        jobs = [job for job in self.unfinished_jobs() if job["spec"].get("suspend")]
        return [*jobs, *(pod for pod in self.members() if _is_gated(pod))]

    def admit(self) -> None:
        """Give quota to all that waits; a group is admitted as a whole."""
        for pod in self.members():
            size = int(pod["metadata"]["annotations"][queue.GROUP_SIZE])
            group = pod["metadata"]["labels"][queue.GROUP]
            alike = [
                item for item in self.members() if item["metadata"]["labels"][queue.GROUP] == group
            ]
            if len(alike) == size:
                pod["spec"]["schedulingGates"] = [
                    gate
                    for gate in pod["spec"].get("schedulingGates") or ()
                    if gate["name"] not in queue.GATES
                ]
        for job in self.unfinished_jobs():
            job["spec"]["suspend"] = False

    def evict_all(self, message: str = PREEMPTED) -> None:
        """Take the quota back: Kueue says so in a condition, and deletes the pods."""
        for pod in self.members():
            if not _is_gated(pod) and not self.is_finished(pod):
                condition = {"type": queue.EVICTED, "status": "True", "message": message}
                pod["status"].setdefault("conditions", []).append(condition)
                self.terminate(pod)
        for job in self.unfinished_jobs():
            job["spec"]["suspend"] = True


def _is_gated(pod: Manifest) -> bool:
    gates = pod["spec"].get("schedulingGates") or ()
    return any(gate["name"] in queue.GATES for gate in gates)
