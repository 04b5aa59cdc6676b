"""What must never happen, checked at each write that the API server carries out.

`Invariants` observes the storage: every create, patch, delete and status of an operator, and every
start of a pod. A request may have been decided upon by a reading that is no longer true: it was
under way, its operator was paused. So a fact that is newer than the sender's last reading of the
job does not count against it, if that reading is not older than a request may be
(`STALE_SECONDS`); what such a request did has to be undone in time.
"""

from __future__ import annotations

import asyncio
import hashlib
from bisect import bisect_right
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import orjson

from chaos.jobs import ELASTIC_COUNTS
from chaos.network import WRITES
from chaos.status_invariants import ELASTIC, HELD, TERMINAL, StatusInvariants
from chaos.world import ChaosCluster, JobWorld
from imagenet_operator.clusters.kubernetes import leader_election, objects
from imagenet_operator.configuration import LEASE_NAMESPACE
from imagenet_operator.manifests import labels
from imagenet_operator.manifests.protection import NETWORK_POLICY
from imagenet_operator.reconcile.decide import is_finished
from imagenet_operator.reconcile.policies import job_status
from support.api_requests import ASKED, Request
from support.simulated_objects import (
    attempt_of,
    check_names,
    is_terminating,
    owner_of,
    workers_of,
)

Manifest = dict[str, Any]
Key = tuple[str, str]

STALE_SECONDS = 240.0
"""How long a request may be under way: its tries, its answers, and a pause of its operator."""

LINGERING_SECONDS = 400.0
"""How long a pod of an ended attempt, or a condition without its pods, may be seen."""

_SENT_AT: ContextVar[float] = ContextVar("sent_at")
"""When the request was sent that is carried out now."""


class Violated(AssertionError):  # noqa: N818 - what became of an invariant
    """An invariant does not hold.

    Attributes:
        invariant: Its name, as the table has it.
    """

    def __init__(self, invariant: str, found: str) -> None:
        super().__init__(f"{invariant}: {found}")
        self.invariant = invariant


_LEASE = (objects.LEASE.name, LEASE_NAMESPACE, leader_election.NAME)

NAMES = {
    "one leader": "With a Lease, only its holder sends requests that change something",
    "one attempt": "At most one attempt of a job has pods that may write",
    "sealed first": "No pod that trains exists before the dataset is sealed",
    "one pod a name": "A pod's name is not used again while the attempt's number has been used",
    "protected": "No pod of an attempt exists without its NetworkPolicy",
    "own objects": "Objects of other owners stay as they are",
    "record first": "No member is deleted before its end is recorded; a recorded end stays",
    "deserved": "Each charged restart and each Failed has a failure of the job itself",
    "true success": "Succeeded means that all workers of one attempt exited with 0",
    "conditions": "Conditions do not contradict each other or the pods",
    "suspended": "A suspended job gets no objects, and Suspended means no pods",
    "late pods": "Pods of ended attempts are deleted",
    "right end": "Each job ends in time after the last fault",
    "rest": "An ended job causes no more writes",
}
"""Each invariant, in words; `ELASTIC` holds for elastic jobs beside them, `HELD` for queues."""


@dataclass
class _Facts:
    """What is known of a job's stored state: since when, by the loop's clock."""

    reads: dict[str, list[float]] = field(default_factory=dict)
    suspended_at: float | None = None
    ended_at: dict[int, float] = field(default_factory=dict)
    workers: dict[int, int] = field(default_factory=dict)
    idle_since: float | None = None


@dataclass
class Invariants:
    """The checks of one schedule.

    Attributes:
        cluster: What is observed.
        violations: What was found, in order.
        checks: How often each invariant was checked.
        foreign: Kind, namespace and name of objects of other owners, with their hashes.
        disruption_limit: The operator's.
        has_lease: Whether operators act only while they hold the Lease.
        statuses: The checks of what the operators write about the jobs.
    """

    cluster: ChaosCluster
    disruption_limit: int
    has_lease: bool
    violations: list[Violated] = field(default_factory=list)
    checks: Counter[str] = field(default_factory=Counter)
    foreign: dict[tuple[str, str, str], str] = field(default_factory=dict)
    _facts: dict[str, _Facts] = field(default_factory=dict)
    _late: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.statuses = StatusInvariants(
            self.cluster, self.disruption_limit, self.expect, self.remaining
        )

    def expect(self, invariant: str, holds: object, found: str) -> None:
        """Check something."""
        assert invariant in (*NAMES, ELASTIC, HELD)
        self.checks[invariant] += 1
        if not holds:
            at = asyncio.get_running_loop().time()
            self.violations.append(Violated(invariant, f"{found} (at {at:.1f} s)"))

    # ------------------------------------------------------------------ what is seen

    async def arrived(self, asked: Request) -> None:
        """Check who sends a request, and take note of when: a fault of the API server."""
        _SENT_AT.set(asyncio.get_running_loop().time())
        if self.has_lease and asked.verb in WRITES and asked.kind != objects.LEASE.name:
            lease = self.cluster.storage.objects.get(_LEASE, {"spec": {}})
            holder = lease["spec"].get("holderIdentity")
            found = f"{asked.verb} of {asked.kind} {asked.name} by {asked.sender}, not {holder}"
            self.expect("one leader", holder == asked.sender, found)

    async def answered(self, asked: Request, answer: Manifest) -> None:
        """Take note of what an operator reads of a job: an effect of the API server."""
        if asked.kind == objects.JOB.name and asked.verb in ("get", "update"):
            facts = self._of(answer["metadata"]["uid"])
            reads = facts.reads.setdefault(asked.sender, [])
            reads.append(asyncio.get_running_loop().time())

    def observe(self, event: str, before: Manifest | None, after: Manifest) -> None:
        """Check one change: an observer of the storage."""
        asked = ASKED.get()
        if after["kind"] in ("Event", "Nothing", "Lease"):
            return
        if after["kind"] == objects.JOB.name:
            self._note_job(after)
            if asked is not None and before is not None and event == "MODIFIED":
                self.statuses.check_change(before, after)
        elif event == "ADDED" and asked is not None:
            self._check_created(asked, after)
        if asked is not None and event != "ADDED":
            self._check_touched(asked, event, after)

    def plant(self, item: Manifest) -> None:
        """Remember an object of another owner."""
        metadata = item["metadata"]
        self.foreign[item["kind"], metadata["namespace"], metadata["name"]] = _hash(item)

    def _of(self, uid: str) -> _Facts:
        return self._facts.setdefault(uid, _Facts())

    def _note_job(self, job: Manifest) -> None:
        facts, now = self._of(job["metadata"]["uid"]), asyncio.get_running_loop().time()
        is_suspended = job["spec"].get("runPolicy", {}).get("suspend", False)
        if not is_suspended:
            facts.suspended_at = None
        elif facts.suspended_at is None:
            facts.suspended_at = now
        training = (job.get("status") or {}).get("training") or {}
        for number in range(training.get("attempt", -1) + ("outcome" in training)):
            facts.ended_at.setdefault(number, now)

    def _is_excused(self, uid: str, sender: str, since: float) -> bool:
        """Whether a sender may not have known yet what is true since then."""
        reads = self._of(uid).reads.get(sender, [])
        known = bisect_right(reads, _SENT_AT.get()) - 1
        if known < 0:
            return False
        now = asyncio.get_running_loop().time()
        return reads[known] <= since and now - reads[known] < STALE_SECONDS

    # ------------------------------------------------------------------ creates

    def _check_created(self, asked: Request, item: Manifest) -> None:
        check_names(item)
        name, uid = item["metadata"]["name"], owner_of(item)
        world = self.cluster.worlds.get(str(uid))
        if item["kind"] == "PersistentVolumeClaim" and world is None:
            return
        self.expect("own objects", world is not None, f"{name} is created for {uid}")
        if world is None:
            return
        facts = self._of(world.uid)
        if facts.suspended_at is not None:
            excused = self._is_excused(world.uid, asked.sender, facts.suspended_at)
            shared = item["kind"] not in ("Pod", "Job")
            self.expect("suspended", excused or shared, f"{name} is created while suspended")
        if item["kind"] == "Pod":
            self._check_member(asked, world, facts, item)
        world.note_created(item)

    def _check_member(self, asked: Request, world: JobWorld, facts: _Facts, pod: Manifest) -> None:
        name, number = pod["metadata"]["name"], attempt_of(pod)
        self.expect("sealed first", world.is_sealed, f"{name} before the dataset is sealed")
        if number in facts.ended_at:
            excused = self._is_excused(world.uid, asked.sender, facts.ended_at[number])
            self.expect("one pod a name", excused, f"{name} after the end of its attempt")
            self._late[pod["metadata"]["uid"]] = asyncio.get_running_loop().time()
            return
        if world.is_elastic:
            self._check_workers(facts, pod)
        policy = (NETWORK_POLICY, f"{world.key[1]}-r{number}")
        # Of a deleted job, the garbage collector takes both, the one before the other.
        job = self.cluster.job(world.key)
        is_deleted = job is None or job["metadata"]["uid"] != world.uid
        protected = is_deleted or policy in world.objects
        self.expect("protected", protected, f"{name} without a NetworkPolicy")
        if (former := world.specs.get(name)) is not None:
            lives = name in [found for found, _ in world.processes.values()]
            same = former == pod["spec"]
            self.expect("one pod a name", same and not lives, f"{name} is created once more")
        others = [
            other["metadata"]["name"]
            for other in world.members()
            if attempt_of(other) != number
            and other["metadata"]["uid"] not in self._late
            and not world.is_finished(other)
            and not self._is_gone(other)
        ]
        self.expect("one attempt", not others, f"{name} beside {others}")

    def _check_workers(self, facts: _Facts, pod: Manifest) -> None:
        told, name = workers_of(pod), pod["metadata"]["name"]
        known = facts.workers.setdefault(attempt_of(pod), told)
        self.expect(ELASTIC, known == told, f"{name} knows of {told} workers, others of {known}")
        self.expect(ELASTIC, told in ELASTIC_COUNTS, f"{name} knows of {told} workers")

    def _is_gone(self, pod: Manifest) -> bool:
        """Whether a pod counts as ended: it is deleted, and its node is known to be lost."""
        return is_terminating(pod) and self.cluster.is_not_ready(pod["spec"].get("nodeName", ""))

    def remaining(self, world: JobWorld) -> list[str]:
        """Return the pods of a job that may still run, without those that came late."""
        return [
            pod["metadata"]["name"]
            for pod in world.members()
            if pod["metadata"]["uid"] not in self._late and not self._is_gone(pod)
        ]

    def check_start(self, world: JobWorld, pod: Manifest) -> None:
        """Check that a pod which starts is alone with its attempt."""
        there = {item["metadata"]["uid"]: item for item in world.members()}
        others = [
            name
            for uid, (name, node) in world.processes.items()
            if f"-r{attempt_of(pod)}-" not in name
            and uid not in self._late
            and not self._is_excused_process(there.get(uid), node)
        ]
        is_late = pod["metadata"]["uid"] in self._late
        started = pod["metadata"]["name"]
        self.expect("one attempt", is_late or not others, f"{started} starts beside {others}")

    def _is_excused_process(self, pod: Manifest | None, node: str) -> bool:
        """Whether the API shows a process as ended, though its node is out of reach."""
        if pod is None:
            return node in self.cluster.unreachable
        return self._is_gone(pod)

    # ------------------------------------------------------------------ patches and deletes

    def _check_touched(self, asked: Request, event: str, item: Manifest) -> None:
        name = (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        if item["kind"] == objects.JOB.name:
            return
        world = self.cluster.world_of(item)
        is_claim = item["kind"] == "PersistentVolumeClaim"
        self.expect(
            "own objects",
            name not in self.foreign and (world is not None or is_claim),
            f"{asked.verb} of {name}",
        )
        is_member = item["kind"] == "Pod" and labels.ATTEMPT in item["metadata"]["labels"]
        if asked.verb == "delete" and is_member and world is not None:
            self._check_recorded(world, item)

    def _check_recorded(self, world: JobWorld, pod: Manifest) -> None:
        job = self.cluster.job(world.key)
        if job is None or job["metadata"]["uid"] != world.uid:
            return
        status = self.cluster.status_of(job)
        name, training = pod["metadata"]["name"], status.training
        if is_finished(status) or pod["metadata"]["uid"] in self._late:
            return
        recorded = training is not None and (
            attempt_of(pod) < training.attempt
            or (attempt_of(pod) == training.attempt and training.outcome is not None)
        )
        self.expect("record first", recorded, f"{name} is deleted before an outcome is recorded")

    # ------------------------------------------------------------------ what is seen for long

    def look(self) -> None:
        """Check what only time can show; called now and then."""
        now = asyncio.get_running_loop().time()
        uids = {item["metadata"]["uid"] for item in self.cluster.storage.objects.values()}
        self._late = {uid: since for uid, since in self._late.items() if uid in uids}
        for world in self.cluster.worlds.values():
            self._look_at(world, now)
        for name, content in self.foreign.items():
            found = self.cluster.storage.objects.get(name)
            self.expect("own objects", found and _hash(found) == content, f"{name} has changed")

    def _look_at(self, world: JobWorld, now: float) -> None:
        facts, job = self._of(world.uid), self.cluster.job(world.key)
        if job is None or job["metadata"]["uid"] != world.uid:
            return
        status = self.cluster.status_of(job)
        self._look_at_former_pods(world, facts, is_finished(status), now)
        alive = [pod for pod in world.members() if pod["status"]["phase"] in ("Pending", "Running")]
        if alive or not job_status.holds(status.conditions, "Running"):
            facts.idle_since = None
            return
        facts.idle_since = now if facts.idle_since is None else facts.idle_since
        lasts = now - facts.idle_since
        found = f"{world.key[1]}: Running without a pod for {lasts:.0f} s"
        self.expect("conditions", lasts < LINGERING_SECONDS, found)

    def _look_at_former_pods(
        self, world: JobWorld, facts: _Facts, has_finished: bool, now: float
    ) -> None:
        """Check that pods of ended attempts go; those of a finished job may stay if they ended."""
        if not facts.ended_at:
            return
        lingering = []
        for pod in world.members():
            uid, number = pod["metadata"]["uid"], attempt_of(pod)
            if number not in facts.ended_at or is_terminating(pod):
                continue
            if has_finished and pod["status"]["phase"] in TERMINAL:
                continue
            if now - self._late.get(uid, facts.ended_at[number]) > LINGERING_SECONDS:
                lingering.append(pod["metadata"]["name"])
        self.expect("late pods", not lingering, f"{lingering} are still there")


def _hash(item: Manifest) -> str:
    return hashlib.sha256(orjson.dumps(item, option=orjson.OPT_SORT_KEYS)).hexdigest()
