"""The world of a job in tests: nodes, kubelets, the Job controller, users, and disasters.

The lower half of the simulated cluster. A test calls each event, in any order. Real events, such as
exits, are separate from observable ones, so a test can compare the end of a job with them.
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from imagenet_operator.manifests import labels, names
from support.simulated_objects import (
    FETCH_RESULT,
    INDEX_RESULT,
    PACK_RESULT,
    SEAL_RESULT,
    attempt_of,
    is_ours,
    is_terminating,
    job_ended,
    owner_of,
    pod_of_job,
    role_of,
    text,
)

Manifest = dict[str, Any]

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FINISHED = '{"event": "finished", "epochs": 90}'


class SimulatedWorld:
    """Objects, the nodes that they are on, and the truth about them.

    Args:
        nodes: Node → how many training pods fit on it.

    Attributes:
        now: The time.
        objects: (kind, name) → manifest.
        unreachable: Nodes that are cut off.
        silent: Nodes that have died, and that the cluster takes for alive.
        is_sealed: In truth, the dataset is complete.
        index_result: What index will find.
        seal_result: What seal will count.
        processes: UID → (pod, node) of every process that is at work, reachable or not.
        exits: Attempt → pod → exit code, of pods that ended by themselves.
        results: Pods that left a result.
        disruptions: Pods that were taken away.
        failed_jobs: Jobs that failed.
        created_pods: Every pod that was ever created to train, in order.
        hung: Attempts that make no progress.
        blocked: Pods that were kept from starting.
    """

    def __init__(self, nodes: dict[str, int]) -> None:
        self.now = START
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.slots = dict(nodes)
        self.unreachable: set[str] = set()
        self.silent: set[str] = set()
        self.is_sealed = False
        self.index_result: Manifest = dict(INDEX_RESULT)
        self.seal_result: Manifest = dict(SEAL_RESULT)
        self.upload_result: Manifest | None = None
        self.processes: dict[str, tuple[str, str]] = {}
        self.exits: dict[int, dict[str, int]] = defaultdict(dict)
        self.results: set[str] = set()
        self.disruptions = 0
        self.failed_jobs: set[str] = set()
        self.created_pods: list[str] = []
        self.hung: set[int] = set()
        self.blocked: set[str] = set()
        self._uids = 0

    # ------------------------------------------------------------------ objects

    def _add(self, manifest: Manifest) -> Manifest:
        self._uids += 1
        added = copy.deepcopy(manifest)
        added["metadata"] |= {"uid": f"uid-{self._uids}", "creationTimestamp": text(self.now)}
        added["status"] = {"phase": "Pending"} if added["kind"] == "Pod" else {}
        self.objects[added["kind"], added["metadata"]["name"]] = added
        if added["kind"] == "Pod" and labels.ATTEMPT in added["metadata"]["labels"]:
            self.created_pods.append(added["metadata"]["name"])
        return added

    def remove(self, item: Manifest) -> None:
        """Remove an object without an event."""
        self.objects.pop((item["kind"], item["metadata"]["name"]), None)

    def _remove_with_dependents(self, item: Manifest) -> None:
        self.remove(item)
        for other in list(self.objects.values()):
            if owner_of(other) == item["metadata"]["uid"]:
                self.remove(other)

    def of_kind(self, kind: str) -> list[Manifest]:
        """The objects of a kind."""
        return [item for (found, _), item in self.objects.items() if found == kind]

    def members(self) -> list[Manifest]:
        """The pods that train, or belong to those."""
        return [pod for pod in self.of_kind("Pod") if labels.ATTEMPT in pod["metadata"]["labels"]]

    # ------------------------------------------------------------------ the nodes' side

    def _room_on(self, node: str) -> int:
        taken = [
            pod
            for pod in self.members()
            if pod["spec"].get("nodeName") == node
            and pod["status"]["phase"] not in ("Succeeded", "Failed")
        ]
        return self.slots[node] - len(taken)

    def pending(self) -> list[Manifest]:
        """Pods that the scheduler may bind."""
        return [
            pod
            for pod in self.members()
            if "nodeName" not in pod["spec"]
            and not is_terminating(pod)
            and not pod["spec"].get("schedulingGates")
        ]

    def bind(self, pod: Manifest) -> None:
        """Bind a pod to the first node with room; without any, it goes on waiting."""
        for node in self.slots:
            if node not in self.unreachable and self._room_on(node) > 0:
                pod["spec"]["nodeName"] = node
                return

    def block(self, pod: Manifest, reason: str, message: str = "") -> None:
        """Keep a bound pod from starting, as its kubelet says it."""
        self.blocked.add(pod["metadata"]["name"])
        state = {"waiting": {"reason": reason, "message": message}}
        pod["status"]["containerStatuses"] = [{"name": names.CONTAINER, "state": state}]

    def startable(self) -> list[Manifest]:
        """Pods that their kubelet may start."""
        return [
            pod
            for pod in self.members()
            if pod["status"]["phase"] == "Pending"
            and self._is_on_a_reachable_node(pod)
            and not is_terminating(pod)
        ]

    def start(self, pod: Manifest) -> None:
        """Start a pod's process, and see that no other one of its name is at work."""
        name = pod["metadata"]["name"]
        assert name not in [other for other, _ in self.processes.values()]
        self.processes[pod["metadata"]["uid"]] = (name, pod["spec"]["nodeName"])
        pod["status"] = {
            "phase": "Running",
            "containerStatuses": [
                {"name": names.CONTAINER, "state": {"running": {"startedAt": text(self.now)}}}
            ],
        }

    def running(self) -> list[Manifest]:
        """Pods whose process runs and can be reached."""
        return [
            pod
            for pod in self.members()
            if pod["status"]["phase"] == "Running" and self._is_on_a_reachable_node(pod)
        ]

    def exit(self, pod: Manifest, code: int, message: str = "", reason: str = "") -> None:
        """Let a running pod's process end by itself; one that ends well leaves a result."""
        if code == 0 and not message:
            message = FINISHED
            self.results.add(pod["metadata"]["name"])
        self.exits[attempt_of(pod)][pod["metadata"]["name"]] = code
        self._end(pod, code, message, reason)

    def _end(self, pod: Manifest, code: int, message: str = "", reason: str = "") -> None:
        self.processes.pop(pod["metadata"]["uid"], None)
        terminated = {"exitCode": code, "finishedAt": text(self.now), "message": message}
        if reason:
            terminated["reason"] = reason
        pod["status"] = {
            **pod["status"],
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [{"name": names.CONTAINER, "state": {"terminated": terminated}}],
        }

    def terminate(self, pod: Manifest) -> None:
        """Begin a pod's deletion; one that no kubelet knows is gone at once."""
        if "nodeName" not in pod["spec"]:
            self.remove(pod)
        else:
            pod["metadata"].setdefault("deletionTimestamp", text(self.now))

    def is_finished(self, pod: Manifest) -> bool:
        """Whether a pod has ended by its status, and its process too."""
        is_at_work = pod["metadata"]["uid"] in self.processes
        return pod["status"]["phase"] in ("Succeeded", "Failed") and not is_at_work

    def terminating(self) -> list[Manifest]:
        """Pods whose kubelet may finish their deletion."""
        return [
            pod
            for pod in self.members()
            if is_terminating(pod) and self._is_on_a_reachable_node(pod)
        ]

    def finalize(self, pod: Manifest) -> None:
        """Finish a pod's deletion: its process is dead."""
        self.processes.pop(pod["metadata"]["uid"], None)
        self.remove(pod)

    def _is_on_a_reachable_node(self, pod: Manifest) -> bool:
        node = pod["spec"].get("nodeName")
        return node is not None and node not in self.unreachable | self.silent

    # ------------------------------------------------------------------ disasters

    def evict(self, pod: Manifest) -> None:
        """Take a pod away as the API does: it is marked, then deleted."""
        self.disruptions += 1
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "lastTransitionTime": text(self.now),
        }
        pod["status"]["conditions"] = [condition]
        self.terminate(pod)

    def save_and_exit(self, pod: Manifest) -> None:
        """Let a program answer SIGTERM as many do: it saves, and exits with 0."""
        self._end(pod, 0)

    def delete_by_hand(self, pod: Manifest) -> None:
        """Delete a pod without a word; its process ends by SIGTERM."""
        self.disruptions += 1
        if pod["status"]["phase"] == "Running" and self._is_on_a_reachable_node(pod):
            self._end(pod, 143)
        self.terminate(pod)

    def vanish(self, pod: Manifest) -> None:
        """Remove a pod at once. On an unreachable node its process continues."""
        self.disruptions += 1
        if pod["spec"].get("nodeName") not in self.unreachable | self.silent:
            self.processes.pop(pod["metadata"]["uid"], None)
        self.remove(pod)

    def lose(self, node: str) -> None:
        """Cut a node off; what runs there goes on."""
        self.unreachable.add(node)

    def die_silently(self, node: str) -> None:
        """Cut a node off before the cluster notices; `notice` follows."""
        self.silent.add(node)

    def notice(self, node: str) -> None:
        """Mark a node that died silently as NotReady."""
        self.silent.discard(node)
        self.disruptions += 1
        self.lose(node)

    def recover(self, node: str) -> None:
        """Bring a node back: its kubelet stops at once what it should not run any more."""
        self.unreachable.discard(node)
        self.silent.discard(node)
        for pod in self.terminating():
            self.finalize(pod)
        known = {pod["metadata"]["uid"] for pod in self.members()}
        self.processes = {
            uid: (name, where)
            for uid, (name, where) in self.processes.items()
            if where in self.unreachable | self.silent or uid in known
        }

    def evict_from_lost_nodes(self) -> None:
        """Act as the taint manager: delete the pods of unreachable nodes."""
        for pod in self.members():
            if pod["spec"].get("nodeName") in self.unreachable and not is_terminating(pod):
                self.evict(pod)

    # ------------------------------------------------------------------ the Job controller

    def unfinished_jobs(self) -> list[Manifest]:
        """Jobs that the controller works on."""
        return [job for job in self.of_kind("Job") if is_ours(job) and not job_ended(job)]

    def advance(self, job: Manifest) -> None:
        """Let a Job's next pod start, or the one that runs succeed."""
        status = job["status"]
        if job["spec"].get("suspend"):
            status["active"] = 0
        elif not status.get("active"):
            status["active"] = 1
        else:
            status |= {"active": 0, "succeeded": status.get("succeeded", 0) + 1}
            if status["succeeded"] >= job["spec"].get("completions", 1):
                self._complete(job)

    def _complete(self, job: Manifest) -> None:
        role = job["metadata"]["labels"][labels.JOB_ROLE]
        result = self._result(role)
        self._job_pod(job, 0, "" if result is None else json.dumps(result))
        job["status"]["conditions"] = [{"type": "Complete", "status": "True"}]
        if role == "seal" or (role == "index" and self.index_result.get("sealed")):
            self.is_sealed = True

    def _result(self, role: str) -> Manifest | None:
        return {
            "fetch": FETCH_RESULT, "index": self.index_result,
            "pack": PACK_RESULT, "seal": self.seal_result, "upload": self.upload_result,
        }.get(role)  # fmt: skip

    def fail_job(self, job: Manifest, message: str = "the archive is damaged") -> None:
        """Let a Job fail for good, its pod saying why."""
        self.failed_jobs.add(job["metadata"]["name"])
        self._job_pod(job, 3, message)
        condition = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy"}
        job["status"] |= {"active": 0, "failed": 1, "conditions": [condition]}

    def _job_pod(self, job: Manifest, code: int, message: str) -> Manifest:
        pod = self._add(pod_of_job(job, self._uids))
        self._end(pod, code, message)
        return pod

    def pend(self, job: Manifest) -> Manifest:
        """Let a Job's pod be created, and not start."""
        job["status"]["active"] = 1
        pod = self._job_pod(job, 0, "")
        pod["status"] = {"phase": "Pending"}
        return pod

    def hold(self, job: Manifest, code: int = 0) -> Manifest:
        """Let a Job's program end in a pod in which an injected container runs on."""
        role = job["metadata"]["labels"][labels.JOB_ROLE]
        job["status"]["active"] = job["status"].get("active", 0) + 1
        pod = self._job_pod(job, code, json.dumps(self._result(role)) if code == 0 else "")
        pod["status"]["phase"] = "Running"
        injected = {"name": "istio-proxy", "state": {"running": {}}}
        pod["status"]["containerStatuses"].append(injected)
        if code == 0 and role == "seal":
            self.is_sealed = True
        return pod

    def strand(self, job: Manifest, node: str) -> None:
        """Lose a node with a pod of a Job on it; the pod is marked for deletion and stays."""
        self.lose(node)
        pod = self.pend(job)
        pod["spec"]["nodeName"] = node
        pod["status"] = {"phase": "Running"}
        pod["metadata"]["deletionTimestamp"] = text(self.now)

    def lose_job(self, job: Manifest) -> None:
        """Delete a Job and its pods as a user would."""
        self._remove_with_dependents(job)

    def lose_job_pods(self) -> None:
        """Collect the finished pods of all Jobs, as the pod garbage collector may."""
        jobs = {job["metadata"]["uid"] for job in self.of_kind("Job")}
        for pod in self.of_kind("Pod"):
            if owner_of(pod) in jobs:
                self.remove(pod)

    # ------------------------------------------------------------------ the users' side

    def occupy(self, kind: str, name: str) -> None:
        """Create a foreign object under a name."""
        owner = {"kind": "Other", "name": "theirs", "uid": "other", "controller": True}
        metadata = {"name": name, "labels": {}, "ownerReferences": [owner]}
        if (kind, name) not in self.objects:
            self._add({"kind": kind, "metadata": metadata, "spec": {}})

    def vacate(self) -> None:
        """Delete that foreign object."""
        for item in list(self.objects.values()):
            if not is_ours(item):
                self.remove(item)

    # ------------------------------------------------------------------ training

    def whole(self, number: int) -> bool:
        """Whether all members of an attempt are at work, or were until they had done theirs."""
        pods = [pod for pod in self.members() if attempt_of(pod) == number]
        finished = {name for name, code in self.exits[number].items() if code == 0}
        at_work = {pod["metadata"]["name"] for pod in self.running() if attempt_of(pod) == number}
        wanted = {name for name in self.created_pods if f"-r{number}-" in name}
        return bool(pods) and at_work | finished == wanted and number not in self.hung

    def finishing_workers(self) -> list[Manifest]:
        """Workers that may have trained to the end."""
        trained = [pod for pod in self.running() if self.whole(attempt_of(pod))]
        return [pod for pod in trained if role_of(pod) == "worker" and not is_terminating(pod)]

    def everybody_succeeded(self, *, with_result: bool = True) -> bool:
        """Whether in truth all workers of some attempt exited with 0, and whether with a result."""
        return any(
            bool(workers)
            and all(codes.get(name) == 0 for name in workers)
            and bool(self.results & set(workers)) is with_result
            for number, codes in self.exits.items()
            for workers in [[name for name in self.created_pods if f"-r{number}-worker-" in name]]
        )

    def turn(self) -> None:
        """Let the controllers, the scheduler and the kubelets do what is due."""
        self.evict_from_lost_nodes()
        for pod in self.terminating():
            self.finalize(pod)
        for job in self.unfinished_jobs():
            self.advance(job)
        for pod in self.pending():
            self.bind(pod)
        for pod in self.startable():
            self.start(pod)

    def finish_training(self) -> None:
        for pod in self.finishing_workers()[:1]:
            self.exit(pod, 0)
        workers = [item for item in self.members() if role_of(item) == "worker"]
        if all(worker["status"]["phase"] == "Succeeded" for worker in workers):
            for pod in self.running():
                if role_of(pod) != "worker":
                    self.exit(pod, 0)
