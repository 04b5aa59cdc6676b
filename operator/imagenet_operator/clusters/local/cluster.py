"""The local cluster: `Cluster` on this machine, for one job.

Creating, deleting and patching change objects. `_settle` then does what controllers and a kubelet
would do about it, until nothing changes. `run` does the same when a pod ends or something is due,
since this cluster is its own kubelet and has no watches. All of it happens in imagenetctl's main
thread: a pod's processes die with the thread that started them.
"""

import asyncio
import contextlib
import copy
import os
import selectors
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from imagenet_operator.clusters.interface import AlreadyExists
from imagenet_operator.clusters.local import pods
from imagenet_operator.clusters.local.jobs import JobController
from imagenet_operator.clusters.local.kubelet import Kubelet
from imagenet_operator.clusters.local.machine import Machine
from imagenet_operator.clusters.local.objects import (
    Objects,
    is_ending,
    is_terminal,
    timestamp,
)
from imagenet_operator.reconcile.types import Capacity, Event, Manifest, Patch, Reference
from imagenet_spec.resource import ImageNetJob

_KINDS = ("Pod", "Job", "Service", "PersistentVolumeClaim")


class LocalCluster:
    """This machine as a cluster for one job."""

    def __init__(
        self,
        machine: Machine,
        save: Callable[[Manifest], None],
        show_event: Callable[[ImageNetJob, Event], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.changed = changed
        self._machine = machine
        self._save = save
        self._show_event = show_event
        self._objects = Objects()
        self._selector = selectors.EpollSelector()
        self._wakeup, self._wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        self._kubelet = Kubelet(machine, self._objects, self._selector)
        self._controllers: dict[str, JobController] = {}
        self._job_wake: datetime | None = None
        self._happened = asyncio.Event()

    async def run(self) -> None:
        """Do what follows from the end of pods and from the passing of time, until cancelled."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._selector, self._happened.set)
        try:
            while True:
                self._drain(0)
                self._settle()
                self._happened.clear()
                with contextlib.suppress(TimeoutError):
                    dues = []
                    if (kill_at := self._kubelet.kill_at()) is not None:
                        dues.append(kill_at - time.monotonic())
                    if self._job_wake is not None:
                        dues.append((self._job_wake - datetime.now(UTC)).total_seconds())
                    await asyncio.wait_for(
                        self._happened.wait(), max(0.0, min(dues)) if dues else None
                    )
        finally:
            loop.remove_reader(self._selector)

    async def observe(self, job: ImageNetJob) -> list[Manifest]:
        return copy.deepcopy(self._objects.all())

    async def unreachable_nodes(self, job: ImageNetJob) -> frozenset[str]:
        """Return none: the only node is this machine."""
        return frozenset()

    async def free_capacity(self, job: ImageNetJob) -> Capacity | None:
        """Return None: `preflight` checks before the start that the job fits."""
        return None

    async def create(self, job: ImageNetJob, manifest: Manifest) -> None:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if kind not in _KINDS:
            raise ValueError(f"a local cluster has no {kind}")
        if (existing := self._objects.get(kind, name)) is not None:
            if is_ending(existing):
                raise AlreadyExists(kind, name)
            return
        if kind == "Pod":
            pods.check(manifest, self._machine.images)
        elif kind == "Job":
            pods.check(manifest["spec"]["template"], self._machine.images)
        elif kind == "PersistentVolumeClaim":
            self._machine.volumes.provision(name)
        self._add(manifest)
        self._settle()

    async def delete(self, job: ImageNetJob, reference: Reference) -> None:
        item = self._objects.get(reference.kind, reference.name)
        if item is not None and item["metadata"]["uid"] == reference.uid:
            self._delete(item)
            self._settle()

    async def patch(self, job: ImageNetJob, patch: Patch) -> None:
        item = self._objects.get(patch.kind, patch.name)
        if item is not None and item["metadata"]["uid"] == patch.uid:
            merge(item, copy.deepcopy(patch.merge))
            self._settle()

    async def write_status(self, job: ImageNetJob) -> None:
        self._save(job.to_manifest())

    async def record_event(self, job: ImageNetJob, event: Event) -> None:
        self._show_event(job, event)

    def wake(self) -> None:
        """Have `changed` called soon; from any thread or signal handler."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_writer, b"\0")

    def shut_down(self, grace: float, kill_now: Callable[[], bool]) -> None:
        """End every process, and wait until none is left; `run` must have ended.

        Pods that mount a claim go first: a worker may save a checkpoint, and needs its servers.

        `grace` is the seconds from SIGTERM to SIGKILL; `kill_now` is asked after each `wake`.
        """
        everyone = self._objects.kind("Pod")
        for wave in ([pod for pod in everyone if pods.claims(pod)], everyone):
            for pod in wave:
                self._kubelet.terminate(pod, grace)
            while any(self._kubelet.has(pod) for pod in wave):
                if kill_now():
                    self._kubelet.kill()
                due = self._kubelet.kill_at()
                self._drain(None if due is None else max(0.0, due - time.monotonic()))
                self._kubelet.collect()

    def close(self) -> None:
        self.shut_down(0.0, lambda: True)
        self._selector.close()
        os.close(self._wakeup)
        os.close(self._wake_writer)

    def _drain(self, timeout: float | None) -> None:
        """Wait for a pod's end or a `wake`, for so many seconds; None for no limit."""
        for key, _ in self._selector.select(timeout):
            if key.fd == self._wakeup:
                os.read(self._wakeup, 4096)
                self.changed()

    def _add(self, manifest: Manifest) -> None:
        now = datetime.now(UTC)
        item = self._objects.add(copy.deepcopy(manifest), now)
        match item["kind"]:
            case "Pod":
                item["status"]["phase"] = "Pending"
            case "Job":
                controller = JobController(item, self._machine.slots)
                self._controllers[item["metadata"]["uid"]] = controller
            case "PersistentVolumeClaim":
                item["status"]["phase"] = "Bound"

    def _delete(self, item: Manifest) -> None:
        if is_ending(item):
            return
        item["metadata"]["deletionTimestamp"] = timestamp(datetime.now(UTC))
        if item["kind"] == "Pod":
            self._kubelet.terminate(item)
        for dependent in self._objects.owned_by(item["metadata"]["uid"]):
            self._delete(dependent)

    def _settle(self) -> None:
        """Do what follows from the present state, until nothing changes."""
        changed = True
        while changed:
            changed = self._kubelet.collect()
            changed |= self._run_jobs()
            changed |= self._remove_ended()
            changed |= self._kubelet.start_pending()
            if changed:
                self.changed()
        self._happened.set()  # `run` waits until the next time something is due, which may differ

    def _run_jobs(self) -> bool:
        now = datetime.now(UTC)
        self._job_wake = None
        changed = False
        for job in self._objects.kind("Job"):
            if is_ending(job):
                continue
            owned = self._objects.owned_by(job["metadata"]["uid"])
            step = self._controllers[job["metadata"]["uid"]].step(owned, now)
            for pod in step.delete:
                self._delete(pod)
            for pod in step.create:
                self._add(pod)
            changed |= bool(step.create or step.delete)
            if step.again_at is not None:
                self._job_wake = min(step.again_at, self._job_wake or step.again_at)
        return changed

    def _remove_ended(self) -> bool:
        """Remove the deleted objects that nothing uses any more."""
        removed = False
        for item in self._objects.all():
            if not is_ending(item) or not self._may_go(item):
                continue
            self._objects.remove(item)
            removed = True
            match item["kind"]:
                case "Pod":
                    self._kubelet.forget(item)
                case "Job":
                    del self._controllers[item["metadata"]["uid"]]
                case "PersistentVolumeClaim":
                    self._machine.volumes.remove(item["metadata"]["name"])
        return removed

    def _may_go(self, item: Manifest) -> bool:
        match item["kind"]:
            case "Pod":
                return is_terminal(item) or not self._kubelet.has(item)
            case "PersistentVolumeClaim":
                name = item["metadata"]["name"]
                return not any(name in pods.claims(pod) for pod in self._objects.kind("Pod"))
            case _:
                return True


def merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """Apply a JSON merge patch (RFC 7396) in place."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        elif isinstance(value, dict):
            target[key] = {}
            merge(target[key], value)
        else:
            target[key] = value
