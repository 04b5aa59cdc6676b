"""The history of a chaos run: each state of its pods, its jobs and the operator's Lease.

Three threads follow the watches. An API server that restarts or loses its events breaks a watch;
then the thread lists again. `invariants` reads the history when the run is over.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.error import HTTPError

from kind.conftest import GPUS
from kind.raw import opened
from kind.stories.namespace import ATTEMPT, OF_JOB, ROLE

Manifest = dict[str, Any]

PODS = f"/api/v1/pods?labelSelector={OF_JOB}"
JOBS = "/apis/imagenet.dev/v1alpha1/imagenetjobs?labelSelector="
LEASE_NAMESPACE, LEASE = "kube-system", "imagenet-operator"
THIEF = "chaos-thief"
"""The holder that the fault "Lease stolen" writes."""

LEASES = (
    f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases"
    f"?fieldSelector=metadata.name={LEASE}"
)

RETRY_SECONDS = 0.5
"""The wait after a watch that broke: an API server may be restarting."""

WATCH_SECONDS = 300


@dataclass(frozen=True)
class PodState:
    """A pod at a time.

    Attributes:
        time: In seconds of the monotonic clock.
        namespace: The pod's.
        name: The pod's.
        uid: The pod's.
        role: Of the job.
        attempt: Its number; None for a pod of the preparation.
        node: Where it is bound; empty before.
        runs: Whether its program runs.
        is_gone: Whether the pod was deleted.
        gpus: Whether it requests GPUs.
    """

    time: float
    namespace: str
    name: str
    uid: str
    role: str
    attempt: int | None
    node: str
    runs: bool
    is_gone: bool
    gpus: bool


@dataclass(frozen=True)
class JobState:
    """A job at a time.

    Attributes:
        time: In seconds of the monotonic clock.
        namespace: The job's; each job has one of its own.
        phase: As in its status; empty before the first.
        is_sealed: Whether its dataset is complete; one that was prepared before always is.
        is_waiting: Whether it neither prepares, trains, is suspended nor has ended.
        message: The message of the condition that holds it up.
        failure: The message of Failed; empty unless it is True.
        restarts: The charged ones.
        disruptions: The others.
    """

    time: float
    namespace: str
    phase: str
    is_sealed: bool
    is_waiting: bool
    message: str
    failure: str
    restarts: int
    disruptions: int

    @property
    def has_ended(self) -> bool:
        """Whether the job has succeeded or failed."""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True)
class LeaseState:
    """The operator's Lease at a time: each renewal, takeover or release.

    Attributes:
        time: In seconds of the monotonic clock.
        holder: The leader; empty if the Lease was released or stolen.
        seconds: How long it leads without another renewal.
    """

    time: float
    holder: str
    seconds: float


@dataclass
class History:
    """The states so far, in the order in which they were seen.

    Attributes:
        kubeconfig: Of the cluster.
        prefix: How the names of the run's namespaces begin.
    """

    kubeconfig: Path
    prefix: str
    pods: list[PodState] = field(default_factory=list)
    jobs: list[JobState] = field(default_factory=list)
    leases: list[LeaseState] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> History:
        """Begin to follow the watches."""
        followed = ((PODS, self._take_pod), (JOBS, self._take_job), (LEASES, self._take_lease))
        for path, take in followed:
            threading.Thread(target=self._follow, args=(path, take), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End with the next event of each watch."""
        self._ended.set()

    def latest_jobs(self) -> dict[str, JobState]:
        """Return the newest state of each job, by its namespace."""
        return {state.namespace: state for state in list(self.jobs)}

    def running(self, namespace: str) -> list[PodState]:
        """Return the pods of a namespace whose programs run now."""
        newest = {state.uid: state for state in list(self.pods) if state.namespace == namespace}
        return [state for state in newest.values() if state.runs and not state.is_gone]

    def _follow(self, path: str, take: Any) -> None:
        known: dict[str, Manifest] = {}
        while not self._ended.is_set():
            try:
                listed = self._list(path)
                found = {item["metadata"]["uid"]: item for item in listed["items"]}
                for uid in known.keys() - found.keys():
                    take(known[uid], is_gone=True)
                for item in found.values():
                    take(item, is_gone=False)
                known = found
                self._watch(path, listed["metadata"]["resourceVersion"], known, take)
            except (OSError, HTTPError, HTTPException, json.JSONDecodeError):
                time.sleep(RETRY_SECONDS)

    def _list(self, path: str) -> Manifest:
        with opened(self.kubeconfig, path) as answer:
            listed: Manifest = json.load(answer)
        return listed

    def _watch(self, path: str, version: str, known: dict[str, Manifest], take: Any) -> None:
        query = f"&watch=1&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        with opened(self.kubeconfig, path + query) as answer:
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR" or self._ended.is_set():
                    return
                item = event["object"]
                is_gone = event["type"] == "DELETED"
                take(item, is_gone=is_gone)
                if is_gone:
                    known.pop(item["metadata"]["uid"], None)
                else:
                    known[item["metadata"]["uid"]] = item

    def _take_pod(self, pod: Manifest, *, is_gone: bool) -> None:
        if pod["metadata"]["namespace"].startswith(self.prefix):
            self.pods.append(pod_state(pod, time.monotonic(), is_gone=is_gone))

    def _take_job(self, job: Manifest, *, is_gone: bool) -> None:
        if job["metadata"]["namespace"].startswith(self.prefix) and not is_gone:
            self.jobs.append(job_state(job, time.monotonic()))

    def _take_lease(self, lease: Manifest, *, is_gone: bool) -> None:
        if not is_gone:
            self.leases.append(lease_state(lease, time.monotonic()))


def pod_state(pod: Manifest, at: float, *, is_gone: bool = False) -> PodState:
    """Return the state of a pod as the API server shows it."""
    labels = pod["metadata"]["labels"]
    statuses = pod["status"].get("containerStatuses") or [{}]
    requests = [item.get("resources", {}).get("requests", {}) for item in pod["spec"]["containers"]]
    return PodState(
        time=at,
        namespace=pod["metadata"]["namespace"],
        name=pod["metadata"]["name"],
        uid=pod["metadata"]["uid"],
        role=labels.get(ROLE, ""),
        attempt=int(labels[ATTEMPT]) if ATTEMPT in labels else None,
        node=pod["spec"].get("nodeName", ""),
        runs="running" in statuses[0].get("state", {}),
        is_gone=is_gone,
        gpus=any(GPUS in item for item in requests),
    )


def job_state(job: Manifest, at: float) -> JobState:
    """Return the state of a job as the API server shows it."""
    status = job.get("status") or {}
    conditions = {item["type"]: item for item in status.get("conditions") or ()}
    is_ready = _holds(conditions, "DatasetReady")
    # The last condition that is written while a job waits: of its pods, or of its dataset.
    held_up = conditions.get("Running" if is_ready else "DatasetReady", {})
    phase = status.get("phase", "")
    return JobState(
        time=at,
        namespace=job["metadata"]["namespace"],
        phase=phase,
        # Of a prepared dataset, the status says so only after the first pods are created.
        is_sealed=is_ready or "prepared" in job["spec"]["dataset"]["source"],
        is_waiting=phase in ("Created", "Starting", "Restarting"),
        message=held_up.get("message", ""),
        failure=conditions["Failed"]["message"] if _holds(conditions, "Failed") else "",
        restarts=status.get("restarts", 0),
        disruptions=status.get("disruptions", 0),
    )


def lease_state(lease: Manifest, at: float) -> LeaseState:
    """Return the state of the operator's Lease as the API server shows it."""
    spec = lease["spec"]
    holder = spec.get("holderIdentity") or ""
    return LeaseState(
        time=at,
        holder="" if holder == THIEF else holder,
        seconds=float(spec.get("leaseDurationSeconds") or 0),
    )


def _holds(conditions: dict[str, Manifest], kind: str) -> bool:
    found: str = conditions.get(kind, {}).get("status", "")
    return found == "True"
