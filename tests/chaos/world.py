"""The cluster of a schedule: what Kubernetes' own programs do with the objects of the API server.

Scheduler, kubelets, Job controller, garbage collector and taint manager are those of
`SimulatedWorld`: one for each job, by its UID, because a job may be deleted and created again. The
worlds share the nodes, and the objects are those that the fake API server stores, so every step of
theirs is an event of its watches.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from chaos.job_objects import ObjectsOfJob
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.manifests import labels
from imagenet_spec import stored as stored_jobs
from imagenet_spec.resource.status import Status
from support.api_storage import Storage
from support.operator_harness import node
from support.simulated_objects import attempt_of, is_terminating, owner_of, role_of, workers_of
from support.simulated_world import START, SimulatedWorld

Manifest = dict[str, Any]
PLACES = 6
"""How many pods fit on a node."""

NOT_READY_SECONDS = 40.0
"""How long a node is silent before it becomes NotReady, as of Kubernetes' node controller."""

EVICTION_SECONDS = 60.0
"""How long pods tolerate a node that is NotReady; a fifth of Kubernetes' default."""


def is_ready(node: Manifest) -> bool:
    """Whether a node is ready, as it says."""
    return any(item["status"] == "True" for item in node["status"]["conditions"])


class JobWorld(SimulatedWorld):
    """What happens to one job.

    Args:
        cluster: Where it happens.
        job: The job, as it is stored.
        size: The members of an attempt.

    Attributes:
        uid: The job's.
        specs: Name of each pod that was created to train → its spec.
        saves_at_sigterm: Whether its programs exit with 0 when they are to end.
        blamed: Attempts of which members died because a node was lost.
        is_elastic: Whether attempts differ in their number of workers.
    """

    def __init__(self, cluster: ChaosCluster, job: Manifest, size: int) -> None:
        super().__init__(cluster.slots)
        metadata = job["metadata"]
        self.uid: str = metadata["uid"]
        self.key = (metadata["namespace"], metadata["name"])
        self.slots = cluster.slots
        self.unreachable = cluster.unreachable
        self.is_sealed = "prepared" in job["spec"]["dataset"]["source"]
        self.specs: dict[str, Manifest] = {}
        self.blamed: set[int] = set()
        self.newest = -1
        self.is_elastic = "minReplicas" in job["spec"]["training"]["workers"]
        # Nodes have to go and come while an elastic job trains.
        self.seconds = cluster.draw.uniform(*((300, 900) if self.is_elastic else (60, 240)))
        # As many programs of users, and none of ours.
        self.saves_at_sigterm = "image" in job["spec"]["training"]
        self._cluster = cluster
        self._size = size
        self._replicas: int = job["spec"]["training"]["workers"]["replicas"]
        self._missing_workers: dict[int, int] = {}
        self._view = ObjectsOfJob(cluster.storage, metadata["namespace"], self.uid)
        self.objects = self._view  # type: ignore[assignment]
        self._found: dict[str, tuple[int, list[Manifest]]] = {}
        self._whole_since: dict[int, datetime] = {}
        self._at_rest: tuple[int | None, int | None] | None = None

    # ------------------------------------------------------------------ objects

    def owns(self, item: Manifest) -> bool:
        """Whether an object is of this job, or of one of its Jobs."""
        return owner_of(item) in self._view.uids

    def note_created(self, item: Manifest) -> None:
        """Take note of an object that the operator has created."""
        metadata = item["metadata"]
        if item["kind"] == "Job":
            self._view.uids.add(metadata["uid"])
        if item["kind"] == "Pod" and labels.ATTEMPT in metadata["labels"]:
            if metadata["name"] not in self.specs:
                self.created_pods.append(metadata["name"])
            self.specs[metadata["name"]] = item["spec"]
            self.newest = max(self.newest, attempt_of(item))
            if self.is_elastic:
                self._missing_workers[attempt_of(item)] = self._replicas - workers_of(item)

    def of_kind(self, kind: str) -> list[Manifest]:
        version, found = self._found.get(kind, (-1, []))
        newest = self._cluster.storage.changed.get(kind, 0)
        if version != newest:
            found = super().of_kind(kind)
            self._found[kind] = newest, found
        return list(found)

    def _add(self, manifest: Manifest) -> Manifest:
        self._uids += 1
        metadata = manifest["metadata"]
        name = ("Pod", self.key[0], metadata["name"])
        if name in self._cluster.storage.objects:
            return self._cluster.storage.objects[name]
        self._cluster.storage.create({**manifest, "metadata": {**metadata, "namespace": name[1]}})
        return self._cluster.storage.objects[name]

    def remove(self, item: Manifest) -> None:
        if (item["kind"], item["metadata"]["name"]) in self.objects:
            self._cluster.storage.remove(item)

    def _remove_with_dependents(self, item: Manifest) -> None:
        self.remove(item)  # the storage collects what it owned

    def terminate(self, pod: Manifest) -> None:
        super().terminate(pod)
        self.publish(pod)

    def _end(self, pod: Manifest, code: int, message: str = "", reason: str = "") -> None:
        super()._end(pod, code, message, reason)
        self.publish(pod)

    def publish(self, item: Manifest) -> None:
        """Store what has become of an object, unless it is gone."""
        metadata = item["metadata"]
        stored = self._cluster.storage.objects.get((item["kind"], self.key[0], metadata["name"]))
        if stored is item:
            self._cluster.storage.store("MODIFIED", item)

    def _room_on(self, node: str) -> int:
        return self._cluster.room_on(node)

    # ------------------------------------------------------------------ what happens by itself

    def whole(self, number: int) -> bool:
        of_attempt = [name for name in self.created_pods if f"-r{number}-" in name]
        size = self._size - self._missing_workers.get(number, 0)
        return number == self.newest and len(of_attempt) == size and super().whole(number)

    def own_failures(self) -> list[int]:
        """The attempts of which a member failed by itself."""
        return [number for number, codes in self.exits.items() if any(codes.values())]

    def blame(self, node: str) -> bool:
        """Let the members of an attempt die of which others are on a node; whether they did."""
        running = self.running()
        numbers = {attempt_of(pod) for pod in running if pod["spec"]["nodeName"] == node}
        peers = [
            pod for pod in running if attempt_of(pod) in numbers and pod["spec"]["nodeName"] != node
        ]
        for pod in peers:
            self.blamed.add(attempt_of(pod))
            self._end(pod, 1, "a peer does not answer")
        return bool(peers)

    def pods_to_do(self) -> bool:
        """Whether a pod has not come to rest."""
        return any(
            is_terminating(pod) or pod["status"]["phase"] in ("Pending", "Running")
            for pod in self.of_kind("Pod")
        )

    def step(self) -> None:
        """Let each controller do some of what is due."""
        changed = self._cluster.storage.changed
        newest = changed.get("Pod"), changed.get("Job")
        if newest == self._at_rest:
            return
        if not self.pods_to_do() and not self.unfinished_jobs():
            self._at_rest = newest
            return
        self.now = self._cluster.now()
        chance = self._cluster.draw.random
        for pod in self.terminating():
            if pod["metadata"]["uid"] in self.processes and chance() < 0.5 * self._cluster.pace:
                self._end(pod, 0 if self.saves_at_sigterm else 143)
            elif chance() < 0.7 * self._cluster.pace:
                self.finalize(pod)
        for job in self.unfinished_jobs():
            if not is_terminating(job) and chance() < 0.5:
                self.advance(job)
                self.publish(job)
        for pod in self.pending():
            self.bind(pod)
            if "nodeName" in pod["spec"]:
                self.publish(pod)
        for pod in self.startable():
            if chance() < 0.6:
                self._cluster.check_start(self, pod)
                self.start(pod)
                self.publish(pod)
        self._train()

    def bind(self, pod: Manifest) -> None:
        nodes = [
            name
            for name in self.slots
            if not self._cluster.is_closed(name) and self._room_on(name) > 0
        ]
        if nodes:
            pod["spec"]["nodeName"] = self._cluster.draw.choice(nodes)
        if "nodeName" in pod["spec"]:
            bound = {"type": "PodScheduled", "status": "True"}
            pod["status"]["conditions"] = [*pod["status"].get("conditions", ()), bound]

    def start(self, pod: Manifest) -> None:
        conditions = pod["status"].get("conditions", [])
        super().start(pod)
        pod["status"]["conditions"] = conditions

    def _train(self) -> None:
        """Let whole attempts train for a while, and end."""
        for number in {attempt_of(pod) for pod in self.running()}:
            if self.whole(number):
                self._whole_since.setdefault(number, self.now)
        for pod in self.finishing_workers():
            since = self._whole_since.get(attempt_of(pod))
            is_over = since is not None and self.now - since > timedelta(seconds=self.seconds)
            if is_over and self._cluster.draw.random() < 0.5:
                self.exit(pod, 0)
        for pod in self.running():
            number = attempt_of(pod)
            if role_of(pod) != "worker" and self._workers_succeeded(number):
                self.exit(pod, 0)

    def _workers_succeeded(self, number: int) -> bool:
        """Whether the helpers of an attempt may exit; its workers may not even be created yet."""
        workers = {name for name in self.created_pods if f"-r{number}-worker-" in name}
        codes = self.exits[number]
        return bool(workers) and all(codes.get(name) == 0 for name in workers)


@dataclass
class ChaosCluster:
    """Nodes, and the worlds of all jobs that ever were.

    Attributes:
        storage: The API server's.
        draw: What happens when.
        slots: Node → how many pods fit on it.
        unreachable: Nodes that are cut off.
        worlds: UID of a job → its world.
        node_losses: How often a node was lost.
        lost_nodes: Nodes that were NotReady at some time.
        pace: How fast kubelets end pods; less than 1 for slowly.
        check_start: Is called before a pod starts.
    """

    storage: Storage
    draw: random.Random
    slots: dict[str, int] = field(default_factory=lambda: dict.fromkeys("abc", PLACES))
    unreachable: set[str] = field(default_factory=set)
    worlds: dict[str, JobWorld] = field(default_factory=dict)
    node_losses: int = 0
    lost_nodes: set[str] = field(default_factory=set)
    pace: float = 1.0
    check_start: Callable[[JobWorld, Manifest], None] = lambda world, pod: None
    _statuses: dict[tuple[str, str], Status] = field(default_factory=dict)

    def now(self) -> datetime:
        """The time."""
        return START + timedelta(seconds=asyncio.get_running_loop().time())

    def add_nodes(self) -> None:
        """Create the nodes."""
        for name, places in self.slots.items():
            self.storage.create(node(name, pods=places))

    def add_job(self, manifest: Manifest, size: int) -> JobWorld:
        """Create a job, as a user does."""
        stored = self.storage.create(manifest)
        world = JobWorld(self, stored, size)
        self.worlds[world.uid] = world
        return world

    def world_of(self, item: Manifest) -> JobWorld | None:
        """The world of an object; None if it is of no job."""
        return next((world for world in self.worlds.values() if world.owns(item)), None)

    def room_on(self, node: str) -> int:
        """How many more pods fit on a node."""
        taken = [
            item
            for (kind, _, _), item in self.storage.objects.items()
            if kind == "Pod"
            and item["spec"].get("nodeName") == node
            and item["status"]["phase"] not in ("Succeeded", "Failed")
        ]
        return self.slots[node] - len(taken)

    def set_ready(self, name: str, ready: bool) -> None:
        """Publish whether a node is ready."""
        stored = self.storage.objects["Node", "", name]
        status = "True" if ready else "Unknown"
        if not ready:
            self.lost_nodes.add(name)
        stored["status"]["conditions"] = [{"type": "Ready", "status": status}]
        self.storage.store("MODIFIED", stored)

    def is_not_ready(self, name: str) -> bool:
        """Whether the API shows a node as lost."""
        stored = self.storage.objects.get(("Node", "", name))
        return stored is None or not is_ready(stored)

    def is_closed(self, name: str) -> bool:
        """Whether no pod is bound to a node: it is lost, or cordoned."""
        return self.is_not_ready(name) or self._is_cordoned(name)

    def _is_cordoned(self, name: str) -> bool:
        return bool(self.storage.objects["Node", "", name]["spec"].get("unschedulable"))

    async def drain_node(self, name: str, seconds: float) -> None:
        """Cordon a node, evict its pods, and open it again after a while."""
        self._cordon(name, True)
        self._evict_from(name)
        await asyncio.sleep(seconds)
        self._cordon(name, False)

    def _cordon(self, name: str, value: bool) -> None:
        stored = self.storage.objects["Node", "", name]
        stored["spec"]["unschedulable"] = value
        self.storage.store("MODIFIED", stored)

    async def lose_node(self, name: str, seconds: float) -> None:
        """Cut a node off for a while: it is noticed late, and its pods are evicted later."""
        self.unreachable.add(name)
        self.node_losses += 1
        loop = asyncio.get_running_loop()
        back_at = loop.time() + seconds
        await asyncio.sleep(min(seconds, NOT_READY_SECONDS))
        if loop.time() < back_at:
            self.set_ready(name, False)
            await asyncio.sleep(min(back_at - loop.time(), EVICTION_SECONDS))
        if loop.time() < back_at:
            self._evict_from(name)
            await asyncio.sleep(back_at - loop.time())
        for world in self.worlds.values():
            world.recover(name)
        self.set_ready(name, True)

    def _evict_from(self, name: str) -> None:
        for world in self.worlds.values():
            for pod in world.members():
                if pod["spec"].get("nodeName") == name and not is_terminating(pod):
                    world.evict(pod)

    def collect_garbage(self) -> None:
        """Delete what jobs that are gone have left: at once, but for pods with a kubelet."""
        uids = {item["metadata"]["uid"] for item in self.storage.objects.values()}
        for world in self.worlds.values():
            if world.uid in uids:
                continue
            for item in list(world.objects.values()):
                if (item["kind"], item["metadata"]["name"]) not in world.objects:
                    continue  # it went with its owner
                if item["kind"] == "Pod" and item["spec"].get("nodeName"):
                    if not is_terminating(item):
                        world.terminate(item)
                else:
                    self.storage.remove(item)

    async def run(self) -> None:
        """Let everything happen that happens by itself, until cancelled."""
        while True:
            await asyncio.sleep(self.draw.uniform(0.5, 2.5))
            for world in list(self.worlds.values()):
                world.step()
            if self.draw.random() < 0.3:
                self.collect_garbage()

    def status_of(self, job: Manifest) -> Status:
        """The status of a job as its operator reads it: one that was too large has no members."""
        key = (job["metadata"]["uid"], job["metadata"]["resourceVersion"])
        if key not in self._statuses:
            self._statuses[key] = stored_jobs.read(job).job.status
        return self._statuses[key]

    def job(self, key: tuple[str, str]) -> Manifest | None:
        """A job as it is stored."""
        return self.storage.objects.get((objects.JOB.name, *key))
