"""What must never stand in a status, checked at each one that an operator writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from chaos.jobs import CHANGES_PER_HOUR
from chaos.world import ChaosCluster, JobWorld
from imagenet_operator.reconcile.policies import elastic, gang, job_status
from imagenet_spec.resource.status import Status, TrainingStatus
from support.simulated_objects import attempt_of, true_ends
from support.simulated_queue import is_gated

Manifest = dict[str, Any]
ELASTIC = "elastic"
"""The invariant of elastic jobs: their workers are of a number that they may have, the same in all
pods of an attempt, and they grow no more often than they may."""

HELD = "held"
"""The invariant of queues: an attempt of which Kueue holds a pod is never withdrawn."""

TERMINAL = ("Succeeded", "Failed", "Unknown")


class Expect(Protocol):
    """Checks an invariant."""

    def __call__(self, invariant: str, holds: object, found: str) -> None:
        """Check it: its name, whether it holds, and what was found."""


@dataclass
class StatusInvariants:
    """The checks of the statuses of one schedule.

    Attributes:
        cluster: What is observed.
        disruption_limit: The operator's.
        expect: Checks an invariant.
        remaining: Returns the pods of a job that may still run.
        sees_nodes: Whether some operator saw in time which nodes were lost.
        changes: UID of an elastic job → how often its number of workers has changed.
        growths: How many attempts ended so that their job grows.
    """

    cluster: ChaosCluster
    disruption_limit: int
    expect: Expect
    remaining: Callable[[JobWorld], list[str]]
    sees_nodes: bool = True
    changes: Counter[str] = field(default_factory=Counter)
    growths: int = 0

    def check_change(self, before: Manifest, after: Manifest) -> None:
        """Check a status that an operator has written."""
        world = self.cluster.worlds[after["metadata"]["uid"]]
        old, new = self.cluster.status_of(before), self.cluster.status_of(after)
        ends, name = true_ends(new), world.key[1]
        self.expect("conditions", len(ends) < 2, f"{name}: {ends}")
        self.expect("conditions", true_ends(old) <= ends, f"{name}: {true_ends(old)} was undone")
        is_running = job_status.holds(new.conditions, "Running")
        self.expect("conditions", not (ends and is_running), f"{name}: Running and {ends}")
        self._check_members(world, old, new)
        if "Succeeded" in ends - true_ends(old):
            self.expect("true success", world.everybody_succeeded(), name)
        self._check_charges(world, old, new, after)
        self._check_growth(world, old, new)
        self._check_withdrawal(world, new)
        was = job_status.holds(old.conditions, "Suspended")
        if job_status.holds(new.conditions, "Suspended") and not was:
            left = self.remaining(world)
            self.expect("suspended", not left, f"{name} is Suspended with {left}")

    def _check_members(self, world: JobWorld, old: Status, new: Status) -> None:
        name = world.key[1]
        if old.training is None:
            return
        is_later = new.training is not None and new.training.attempt >= old.training.attempt
        self.expect("record first", is_later, f"{name}: an attempt is forgotten")
        if new.training is None or new.training.attempt != old.training.attempt:
            over = old.training.outcome is not None
            self.expect("record first", over, f"{name}: an attempt without an outcome is over")
            return
        ends = {item.name: item.phase for item in new.training.members}
        lost = [
            item.name
            for item in old.training.members
            if item.phase in TERMINAL and ends.get(item.name) != item.phase
        ]
        self.expect("record first", not lost, f"{name}: the ends of {lost} are lost")
        kept = old.training.outcome is None or new.training.outcome == old.training.outcome
        refunded = self._is_refund(world, old.training, new.training)
        self.expect("record first", kept or refunded, f"{name}: an outcome is changed")

    def _is_refund(self, world: JobWorld, old: TrainingStatus, new: TrainingStatus) -> bool:
        """Whether a charge is taken back because a node was lost that had a member on it."""
        if old.outcome is None or new.outcome is None or not old.outcome.charged:
            return False
        nodes = {member.node for member in old.members}
        nodes |= {
            pod["spec"].get("nodeName") for pod in world.members() if attempt_of(pod) == old.attempt
        }
        is_named = new.outcome.reason == "NodeLost" and not new.outcome.charged
        return is_named and bool(nodes & self.cluster.lost_nodes)

    def _check_charges(self, world: JobWorld, old: Status, new: Status, job: Manifest) -> None:
        own, name = len(world.own_failures()), world.key[1]
        # A charge is taken back when a node turns out to be lost.
        self.expect(
            "deserved",
            new.restarts <= own + len(world.blamed),
            f"{name}: {new.restarts} restarts after {own} failures of its own",
        )
        self.expect(
            "deserved",
            new.disruptions <= world.disruptions + self.cluster.node_losses,
            f"{name}: {new.disruptions} disruptions after {world.disruptions}",
        )
        self.expect(
            "record first",
            new.restarts + new.disruptions >= old.restarts + old.disruptions,
            f"{name}: a restart is forgotten",
        )
        failed = job_status.find(new.conditions, "Failed")
        if failed is None or failed.status != "True" or "Failed" in true_ends(old):
            return
        limit = job["spec"].get("runPolicy", {}).get("backoffLimit", 6)
        deserved = {
            "PreparationFailed": bool(world.failed_jobs),
            "BackoffLimitExceeded": own + (0 if self.sees_nodes else len(world.blamed)) > limit,
            "DisruptionLimitExceeded": world.disruptions > self.disruption_limit,
        }
        self.expect(
            "deserved", deserved.get(failed.reason), f"{name}: {failed.reason}: {failed.message}"
        )

    def _check_withdrawal(self, world: JobWorld, new: Status) -> None:
        """Check that no attempt is withdrawn for the time that it has waited in a queue."""
        training = new.training
        outcome = None if training is None else training.outcome
        if training is None or outcome is None or outcome.reason != gang.TIMED_OUT:
            return
        pods = [pod for pod in world.members() if attempt_of(pod) == training.attempt]
        held = [pod["metadata"]["name"] for pod in pods if is_gated(pod)]
        self.expect(HELD, not held, f"{world.key[1]}: Kueue holds {held}")

    def _check_growth(self, world: JobWorld, old: Status, new: Status) -> None:
        """Check how often the workers have changed when a job grows; all within an hour."""
        former, current = old.training, new.training
        if not world.is_elastic or former is None or current is None:
            return
        if current.attempt != former.attempt:
            if current.workers != former.workers and not _grows(former):
                self.changes[world.uid] += 1
        elif former.outcome is None and _grows(current):
            found = f"{world.key[1]} grows after {self.changes[world.uid]} changes"
            self.expect(ELASTIC, self.changes[world.uid] < CHANGES_PER_HOUR, found)
            self.changes[world.uid] += 1
            self.growths += 1

    def check_end(self, job: Manifest) -> None:
        """Check what an ended job is charged with."""
        world = self.cluster.worlds[job["metadata"]["uid"]]
        own = len(world.own_failures()) + (0 if self.sees_nodes else len(world.blamed))
        restarts = self.cluster.status_of(job).restarts
        found = f"{world.key[1]}: {restarts} restarts at the end, {own} failures of its own"
        self.expect("deserved", restarts <= own, found)


def _grows(training: TrainingStatus) -> bool:
    """Whether an attempt has ended so that its job grows."""
    return training.outcome is not None and training.outcome.reason == elastic.GROWING
