"""One attempt of very many members, reconciled as the Kubernetes reconciler does.

The job passes through its stored form before each reconcile: read, decide, write.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from imagenet_operator.clusters.apply import writes_status
from imagenet_operator.reconcile import observe
from imagenet_operator.reconcile.decide import decide
from imagenet_spec import stored
from imagenet_spec.resource.status import Status
from support import job_table

Manifest = dict[str, Any]
NOW = datetime(2026, 1, 2, 4, 0, tzinfo=UTC)


class LargeAttempt:
    """A job with a prepared dataset, and the pods of its first attempt.

    Args:
        workers: How many workers.
        servers: How many servers; 0 for a strategy without any.

    Attributes:
        job: The job as it is stored.
        pods: The pods by role and index.
    """

    def __init__(self, workers: int, servers: int) -> None:
        self.workers = workers
        self.job = job_table.manifest(dataset={"source": job_table.PREPARED, "volume": None})
        training = self.job["spec"]["training"]
        training["workers"]["replicas"] = workers
        training["batchSize"] = workers
        training["strategy"] = {"horovod": {}}
        if servers:
            training["strategy"] = {"parameterServer": {"servers": {"replicas": servers}}}
        self.pods: dict[str, Manifest] = {}
        self._others: list[Manifest] = []

    @property
    def status(self) -> Status:
        """The status, as it is read."""
        return stored.read(self.job).job.status

    def begin(self) -> None:
        """Create all pods, let them run, and record that."""
        self.reconcile()
        for name in self.pods:
            self._set_state(name, "Running", {"running": {"startedAt": "2026-01-02T03:04:05Z"}})
        self.reconcile()
        assert self.status.phase == "Running"

    def end(
        self, name: str, code: int, message: str = "", at: str = "2026-01-02T03:05:05Z"
    ) -> None:
        """Let a pod's program end."""
        ended = {"exitCode": code, "message": message, "finishedAt": at, "startedAt": at}
        self._set_state(name, "Failed" if code else "Succeeded", {"terminated": ended})

    def _set_state(self, name: str, phase: str, state: Manifest) -> None:
        pod = self.pods[name]
        pod["spec"]["nodeName"] = f"node-{name}"
        pod["status"] = {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}

    def reconcile(self) -> bool:
        """Reconcile once; return whether the status was written."""
        job = stored.read(self.job).job
        children = [*self.pods.values(), *self._others]
        decision = decide(job, observe.sort(job, children), None, NOW)
        for item in decision.create:
            self._create(item)
        if not writes_status(job, decision):
            return False
        self.job["status"] = stored.carried(self.job.get("status") or {}, decision.status)
        return True

    def _create(self, item: Manifest) -> None:
        name = item["metadata"]["name"]
        item["metadata"]["uid"] = f"uid-of-{item['kind']}-{name}"
        if item["kind"] == "Pod":
            item["status"] = {"phase": "Pending"}
            self.pods["-".join(name.split("-")[-2:])] = item
        else:
            self._others.append(item)
