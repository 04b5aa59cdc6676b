"""A cluster in memory that does to a job whatever real ones do, and holds it to account.

It implements `clusters.interface.Cluster` over a `SimulatedWorld`, for the real `clusters.apply`.
`settle` lets everything go well until the end. What must never happen is asserted where it would.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from fractions import Fraction

from imagenet_operator.clusters.apply import apply
from imagenet_operator.clusters.interface import AlreadyExists
from imagenet_operator.manifests import labels
from imagenet_operator.manifests.protection import NETWORK_POLICY
from imagenet_operator.reconcile.decide import decide, is_finished
from imagenet_operator.reconcile.observe import sort
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import (
    DEFAULTS,
    Capacity,
    Decision,
    Event,
    Patch,
    ReconcileSettings,
    Reference,
    Room,
)
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import Status
from imagenet_spec.resource.time_status import seconds_of
from support.asynchronous import run_now
from support.merge_patch import merge
from support.simulated_failures import deserves
from support.simulated_objects import (
    attempt_of,
    check_names,
    condition,
    is_ours,
    is_terminating,
    owner_of,
    true_ends,
    written_by,
)
from support.simulated_status import check_change, check_published
from support.simulated_uploads import check_new_job, check_uploads_are_over
from support.simulated_world import START, Manifest, SimulatedWorld


class Cut(Exception):  # noqa: N818 - no error: the test's own stop
    """The operator dies between two of its actions."""


class SimulatedCluster(SimulatedWorld):
    """One job, and the world that it lives in.

    Args:
        document: The job's manifest, with a UID.
        nodes: Node → how many training pods fit on it.
        settings: The operator's.
        tells_capacity: Whether it knows what its nodes have left.

    Attributes:
        document: The job, as JSON; its status is what was last written.
        events: All that were recorded.
        is_deleted: The job itself was deleted.
        next_reconcile: When the last decision asked for the next pass.
    """

    def __init__(
        self,
        document: Manifest,
        nodes: dict[str, int],
        settings: ReconcileSettings = DEFAULTS,
        *,
        tells_capacity: bool = False,
    ) -> None:
        super().__init__(nodes)
        self.document = copy.deepcopy(document)
        self.settings = settings
        self.events: list[Event] = []
        self.is_deleted = False
        self.next_reconcile: datetime | None = START
        self.progressed_at: dict[int, datetime] = {}
        self._heard_since: dict[int, datetime] = {}
        self._counted_since: datetime | None = None
        self._tells_capacity = tells_capacity
        self._budget: int | None = None
        self._between: Callable[[], None] | None = None
        self._seen_terminal: set[str] = set()
        self._writers: dict[str, int] = {}
        self._in_flight: Manifest | None = None
        self._is_cut = False
        stored = json.dumps(document)
        self._read = (stored, ImageNetJob.model_validate_json(stored))

    # ------------------------------------------------------------------ the operator's side

    @property
    def job(self) -> ImageNetJob:
        """The job as an API server would return it: read from JSON."""
        stored = json.dumps(self.document)
        if stored != self._read[0]:
            self._read = (stored, ImageNetJob.model_validate_json(stored))
        return self._read[1]

    @property
    def status(self) -> Status:
        """The recorded status."""
        return self.job.status

    def reconcile(
        self,
        *,
        cut_after: int | None = None,
        between: Callable[[], None] | None = None,
        repeat: bool = False,
    ) -> Decision:
        """Make one pass: observe, decide, apply.

        Args:
            cut_after: Die after so many actions.
            between: What the world does before each action.
            repeat: Apply the decision twice.
        """
        return run_now(self._reconcile(cut_after, between, repeat))

    async def _reconcile(
        self, cut_after: int | None, between: Callable[[], None] | None, repeat: bool
    ) -> Decision:
        job = self.job
        observed = sort(
            job,
            await self.observe(job),
            unreachable_nodes=await self.unreachable_nodes(job),
            free=await self.free_capacity(job),
        )
        sample = self.sample()
        decision = decide(job, observed, sample, self.now, self.settings)
        assert decision == decide(job, observed, sample, self.now, self.settings)
        self._check_status(job.status, decision.status)
        self._budget, self._between = cut_after, between
        try:
            await apply(self, job, decision)
            if repeat:
                await apply(self, job, decision)
        except (Cut, AlreadyExists):
            self.next_reconcile = self.now
        else:
            again = decision.requeue_after
            self.next_reconcile = None if again is None else self.now + again
        finally:
            self._budget = self._between = None
            self._is_cut = False
        return decision

    def _check_status(self, old: Status, new: Status) -> None:
        check_change(old, new)
        assert "Succeeded" not in true_ends(new) or self.everybody_succeeded(), "no true success"
        failed = condition(new, "Failed")
        if failed is not None and failed.status == "True":
            hangs = len(self.progressed_at)
            is_deserved = deserves(self, self.job.spec.run_policy, self.settings, hangs)
            assert is_deserved[failed.reason], f"nothing deserves {failed.reason}"
        assert new.restarts <= self.job.spec.run_policy.backoff_limit, "too many restarts"
        assert new.disruptions_in_a_row <= self.settings.disruption_limit, "too many disruptions"

    def check_rest(self) -> None:
        """See that a finished job needs nothing more, and that what runs was to be kept."""
        self.turn()
        last = self.reconcile()
        assert (last.create, last.delete, last.patch, last.events) == ((), (), (), ()), "no rest"
        assert last.status == self.status, "no rest"
        check_published(self.job)
        keeps = self.job.spec.run_policy.clean_pod_policy == "None"
        assert keeps or not self.running(), "pods of a finished job run on"

    def _act(self) -> None:
        if self._is_cut:
            raise Cut
        if self._between is not None:
            self._between()
        if self._budget is not None:
            if self._budget == 0:
                self._is_cut = True
                raise Cut
            self._budget -= 1

    def arrive(self) -> Manifest:
        """Let the last create that the operator asked for before it died arrive after all."""
        assert self._in_flight is not None
        return self._add(self._in_flight)

    def suspend(self, value: bool) -> None:
        """Edit the job's spec."""
        self.edit(lambda spec: spec.setdefault("runPolicy", {}).update(suspend=value))

    def edit(self, change: Callable[[Manifest], None]) -> None:
        """Change the job's spec, as another generation of it."""
        change(self.document["spec"])
        metadata = self.document["metadata"]
        metadata["generation"] = metadata.get("generation", 1) + 1

    def sample(self) -> Sample | None:
        """The samples of a sampler: progress of complete attempts."""
        numbers = [attempt_of(pod) for pod in self.running()]
        if not numbers:
            return None
        number = max(numbers)
        if self.whole(number) or number not in self.progressed_at:
            self.progressed_at[number] = self.now
        since = self._heard_since.setdefault(number, self.now)
        seconds = {"joining": 5.0, "stepping": (self.now - since).total_seconds()}
        return Sample(
            taken_at=self.now,
            attempt=number,
            progressed_at=self.progressed_at[number],
            seconds=seconds,
        )

    def settle(self, *, with_events: bool = True, limit: int = 2000) -> None:
        """Let everything that would happen by itself happen, with passes, until the job ends.

        Args:
            with_events: Pass after every change; otherwise only when a decision asked for it.
            limit: How many rounds the job has for it.
        """
        for _ in self._rounds(limit):
            self.turn()
            self.finish_training()
            due = self.next_reconcile is not None and self.next_reconcile <= self.now
            if with_events or due:
                self.reconcile()
            if self.next_reconcile is None or self.next_reconcile > self.now:
                self.now += timedelta(seconds=20)

    def _rounds(self, limit: int) -> Iterator[int]:
        for number in range(limit):
            if self.is_deleted or (is_finished(self.status) and self.next_reconcile is None):
                return
            yield number
        raise AssertionError(f"the job does not end: {self.status!r}")

    # ------------------------------------------------------------------ the Cluster interface

    async def observe(self, job: ImageNetJob) -> list[Manifest]:
        """Every object, as nothing else lives here."""
        training = job.status.training
        for pod in self.members():
            ended = pod["status"]["phase"] in ("Succeeded", "Failed")
            if ended and training is not None and training.outcome is None:
                self._seen_terminal.add(pod["metadata"]["name"])
        found: list[Manifest] = json.loads(json.dumps(list(self.objects.values())))
        return found

    async def unreachable_nodes(self, job: ImageNetJob) -> frozenset[str]:
        """Nodes that are down."""
        return frozenset(self.unreachable)

    async def free_capacity(self, job: ImageNetJob) -> Capacity | None:
        """Places for pods on reachable nodes, if this cluster reports them."""
        if not self._tells_capacity:
            return None
        return {
            node: Room(
                {
                    "pods": Fraction(self._room_on(node)),
                    "nvidia.com/gpu": Fraction(100),
                    "memory": Fraction(2**50),
                }
            )
            for node in self.slots
            if node not in self.unreachable
        }

    async def create(self, job: ImageNetJob, manifest: Manifest) -> None:
        """Make an object, if what must never be is not."""
        was_cut = self._is_cut
        try:
            self._act()
        except Cut:
            if not was_cut:
                self._in_flight = manifest
            raise
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if (found := self.objects.get((kind, name))) is not None:
            if owner_of(found) != job.metadata.uid or is_terminating(found):
                raise AlreadyExists(kind, name)
            return
        self._check_new(manifest)
        self._add(manifest)

    async def delete(self, job: ImageNetJob, reference: Reference) -> None:
        """Ask for the end of an object that is the job's."""
        self._act()
        if reference.kind == "ImageNetJob":
            assert reference.uid == self.job.metadata.uid
            check_published(self.job)
            self.is_deleted = True
            return
        found = self._identified(reference)
        if found is None:
            return
        if reference.kind == NETWORK_POLICY:
            self._check_protection(found)
        if reference.kind == "Pod":
            if labels.ATTEMPT in found["metadata"]["labels"]:
                self._check_end(found)
            self.terminate(found)
        else:
            self._remove_with_dependents(found)

    async def patch(self, job: ImageNetJob, patch: Patch) -> None:
        """Merge a patch into an object that is the job's."""
        self._act()
        found = self._identified(Reference(patch.kind, patch.name, patch.uid))
        if found is not None:
            merge(found, patch.merge)

    async def write_status(self, job: ImageNetJob) -> None:
        """Store the status, as JSON."""
        self._act()
        self._check_time(job.status)
        self.document["status"] = json.loads(json.dumps(job.status.to_manifest()))

    async def record_event(self, job: ImageNetJob, event: Event) -> None:
        """Keep an event."""
        self._act()
        self.events.append(event)

    def _identified(self, reference: Reference) -> Manifest | None:
        found = self.objects.get((reference.kind, reference.name))
        if found is None or found["metadata"]["uid"] != reference.uid:
            return None
        is_claim = reference.kind == "PersistentVolumeClaim"
        jobs = {job["metadata"]["uid"] for job in self.of_kind("Job") if is_ours(job)}
        is_own = owner_of(found) in {self.job.metadata.uid, *jobs}
        assert is_claim or is_own, f"{reference} is not ours"
        return found

    # ------------------------------------------------------------------ what must never happen

    def _check_time(self, status: Status) -> None:
        assert status.time is not None
        assert status.time.counted_until is not None
        whole = timedelta(seconds=sum(seconds_of(status.time.phases).values()))
        if self._counted_since is None:
            self._counted_since = status.time.counted_until - whole
        missing = status.time.counted_until - self._counted_since - whole
        assert abs(missing) < timedelta(seconds=0.1), "a second that belongs to no phase"

    def _check_new(self, manifest: Manifest) -> None:
        check_names(manifest)
        metadata = manifest["metadata"]
        suspended = self.job.spec.run_policy.suspend and not is_finished(self.status)
        assert not suspended, f"created while suspended: {metadata['name']}"
        if manifest["kind"] == "Job":
            check_new_job(self, self.job, manifest)
        if manifest["kind"] != "Pod":
            return
        number = int(metadata["labels"][labels.ATTEMPT])
        assert (NETWORK_POLICY, f"{self.job.metadata.name}-r{number}") in self.objects, (
            "unprotected"
        )
        assert self.is_sealed, "a pod that trains before the dataset is sealed"
        assert metadata["name"] not in self.created_pods, "two pods of one name: one path, two pods"
        for path in written_by(manifest):
            owner = self._writers.setdefault(path, number)
            assert owner == number, f"{path} is written by attempts {owner} and {number}"
        others = [
            pod["metadata"]["name"]
            for pod in self.members()
            if attempt_of(pod) != number
            and not self.is_finished(pod)
            and not self._is_out_of_reach(pod)
        ]
        assert not others, f"attempt {number} beside {others}"

    def _is_out_of_reach(self, pod: Manifest) -> bool:
        return is_terminating(pod) and pod["spec"].get("nodeName") in self.unreachable

    def _check_protection(self, policy: Manifest) -> None:
        number = policy["metadata"]["labels"].get(labels.ATTEMPT)
        if number is None:
            check_uploads_are_over(self)
        exposed = [
            pod["metadata"]["name"]
            for pod in self.members()
            if str(attempt_of(pod)) == number
            and pod["metadata"]["uid"] in self.processes
            and not self._is_out_of_reach(pod)
        ]
        assert not exposed, f"{exposed} go on without protection"

    def _check_end(self, pod: Manifest) -> None:
        status, name = self.status, pod["metadata"]["name"]
        if is_finished(status):
            return
        training = status.training
        assert training is not None, f"{name}: nothing recorded"
        if attempt_of(pod) < training.attempt:
            return
        assert training.outcome is not None, f"{name}: nothing recorded"
        recorded = {member.name: member.phase for member in training.members}
        if name in self._seen_terminal:
            assert recorded[name] != "Running", f"{name}: its end is not recorded"
