"""The schedules find bugs: each of these, planted into the operator, violates an invariant.

A bug is planted by a patch of one function. The schedules are drawn from the faults that matter to
it, so that few are enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from chaos import faults, schedule
from chaos.faults import Fault
from chaos.network import Rule
from chaos.schedule import Story
from imagenet_operator.clusters import apply
from imagenet_operator.clusters.interface import Cluster, ClusterError
from imagenet_operator.clusters.kubernetes import cluster, reconciler
from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.clusters.kubernetes.cluster import KubernetesCluster
from imagenet_operator.clusters.kubernetes.leader_election import LeaderElection
from imagenet_operator.clusters.kubernetes.reconciler import ReadConsistency
from imagenet_operator.manifests import attempt
from imagenet_operator.reconcile import decide, observe, outcome, training
from imagenet_operator.reconcile.context import ReconcileContext
from imagenet_operator.reconcile.policies import members, suspend
from imagenet_operator.reconcile.types import Attempt, Charge, Decision, End
from imagenet_spec.resource import ImageNetJob
from support.api_requests import creates_a_pod, writes_status
from support.planted_bugs import (
    deletes_before_it_records,
    does_not_wait_for_former_pods,
    does_not_wait_for_the_dataset,
    forgets_how_members_ended,
    uses_a_number_again,
)

Patch = pytest.MonkeyPatch
Manifest = dict[str, Any]
SCHEDULES = 40
"""How many may pass until a bug is found."""

ON_THE_WAY = (faults.errors, faults.resets, faults.lost_answers, faults.late_requests)
LAGS = (faults.lag("Pod"), faults.lag("ImageNetJob"), faults.pause)
CLUSTER = (faults.crash, faults.evict, faults.vanish, faults.lose_node)

ALONE, IN_TURN, SIDE_BY_SIDE = (1, True), (2, True), (2, False)
"""How many operators there are, and whether they have a Lease."""


async def late_deletes(story: Story) -> None:
    """Deletes have their effect half a minute late."""
    until = story.now + 120
    story.network.before.append(
        Rule("request late", until, lambda asked: asked.verb == "delete", delay=25)
    )


async def late_statuses(story: Story) -> None:
    """Some statuses are written a minute late, when their operator has given up."""
    until = story.now + 120
    story.network.before.append(Rule("request late", until, writes_status, chance=0.5, delay=60))


async def late_pods(story: Story) -> None:
    """Some pods are created a minute late, when their operator has given up."""
    until = story.now + 200
    story.network.before.append(Rule("request late", until, creates_a_pod, chance=0.3, delay=60))


async def slow_endings(story: Story) -> None:
    """Pods take half a minute to end."""
    story.cluster.pace = 0.05


async def vanish_when_ended(story: Story) -> None:
    """A pod vanishes that has ended well, while its attempt goes on."""
    for _ in range(400):
        await asyncio.sleep(1)
        for world in story.cluster.worlds.values():
            ended = [pod for pod in world.members() if pod["status"]["phase"] == "Succeeded"]
            if ended and world.running():
                world.vanish(ended[0])
                return


# The client and the caches.


def takes_the_cache_for_live(patch: Patch) -> None:
    patch.setattr(reconciler, "required", lambda *_: ReadConsistency.CACHED)


def takes_any_holder_of_a_name_for_its_own(patch: Patch) -> None:
    patch.setattr(cluster, "is_ours", lambda item, uid: True)


def deletes_by_name_alone(patch: Patch) -> None:
    delete = Client.delete

    async def by_name(self: Client, path: str, options: Manifest) -> Manifest:
        return await delete(self, path, {**options, "preconditions": {}})

    patch.setattr(Client, "delete", by_name)


def overwrites_any_status(patch: Patch) -> None:
    replaced = Client.replace

    async def without_version(self: Client, path: str, manifest: Manifest) -> Manifest:
        metadata = {**manifest["metadata"], "resourceVersion": ""}
        return await replaced(self, path, {**manifest, "metadata": metadata})

    patch.setattr(Client, "replace", without_version)


def takes_a_lease_that_another_one_holds(patch: Patch) -> None:
    patch.setattr(LeaderElection, "_rivals", lambda election: {})


# The order of the actions.


def writes_the_status_first(patch: Patch) -> None:
    in_order = apply.steps_of

    def status_first(
        cluster: Cluster, job: ImageNetJob, decision: Decision, refused: list[ClusterError]
    ) -> Iterator[list[Awaitable[None]]]:
        written = job.model_copy(update={"status": decision.status})
        yield [cluster.write_status(written)] if apply.writes_status(job, decision) else []
        yield from in_order(cluster, job, replace(decision, status=job.status), refused)

    patch.setattr(apply, "steps_of", status_first)


def creates_pods_before_their_protection(patch: Patch) -> None:
    build = attempt.build
    patch.setattr(attempt, "build", lambda *given: build(*given)[::-1])


def goes_on_after_a_refusal(patch: Patch) -> None:
    create = KubernetesCluster.create

    async def tolerant(self: KubernetesCluster, job: ImageNetJob, manifest: Manifest) -> None:
        try:
            await create(self, job, manifest)
        except ClusterError:
            return

    patch.setattr(KubernetesCluster, "create", tolerant)


# The decisions.


def forgets_former_attempts(patch: Patch) -> None:
    found = observe.attempts_of

    def newest(*given: Any) -> dict[int, Attempt]:
        attempts = found(*given)
        return {number: attempts[number] for number in sorted(attempts)[-1:]}

    patch.setattr(observe, "attempts_of", newest)


def succeeds_with_its_first_worker(patch: Patch) -> None:
    patch.setattr(
        members,
        "succeeded",
        lambda found: any(item.role == "worker" and item.phase == "Succeeded" for item in found),
    )


def runs_after_its_end(patch: Patch) -> None:
    set_condition = ReconcileContext.set_condition

    def for_ever(context: ReconcileContext, kind: Any, value: bool, *said: str) -> bool:
        return set_condition(context, kind, value or kind == "Running", *said)

    patch.setattr(ReconcileContext, "set_condition", for_ever)


def charges_disruptions_to_the_program(patch: Patch) -> None:
    end_attempt = outcome.end_attempt

    def charged(context: ReconcileContext, end: End) -> None:
        end_attempt(context, replace(end, charge=Charge.FAILURE))

    patch.setattr(outcome, "end_attempt", charged)


def refunds_any_charge(patch: Patch) -> None:
    patch.setattr(members, "lost_member", lambda members, seen, nodes: members[0].name)


def gives_up_too_early(patch: Patch) -> None:
    patch.setattr(outcome, "limit_reached", lambda *_: ("BackoffLimitExceeded", "enough"))


def believes_in_suspension_at_once(patch: Patch) -> None:
    patch.setattr(suspend, "is_quiet", lambda observed: True)


def takes_everything_for_its_own(patch: Patch) -> None:
    def of_its_name(item: Manifest, job: ImageNetJob, asked_for: object) -> bool:
        del asked_for
        return bool(item["metadata"]["name"].startswith(job.metadata.name))

    patch.setattr(observe, "is_ours", of_its_name)


def records_the_end_again_and_again(patch: Patch) -> None:
    finish = decide.finish

    def talkative(context: ReconcileContext) -> None:
        finish(context)
        context.record_event("Finished", "again")
        context.requeue_later()

    patch.setattr(decide, "finish", talkative)


def never_starts_again(patch: Patch) -> None:
    between = training.between_attempts

    def only_once(context: ReconcileContext) -> None:
        if context.status.training is None:
            between(context)

    patch.setattr(training, "between_attempts", only_once)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("bug", "kinds", "operators", "invariant"),
    [
        (takes_the_cache_for_live, (*LAGS, *CLUSTER), SIDE_BY_SIDE, "deserved"),
        (takes_any_holder_of_a_name_for_its_own, (faults.occupy, faults.crash), ALONE, "deserved"),
        (
            deletes_by_name_alone,
            (late_deletes, faults.crash, faults.recreate),
            ALONE,
            "record first",
        ),
        (overwrites_any_status, (late_statuses, faults.crash), ALONE, "record first"),
        (takes_a_lease_that_another_one_holds, CLUSTER, IN_TURN, "one leader"),
        (writes_the_status_first, ON_THE_WAY, ALONE, "deserved"),
        (creates_pods_before_their_protection, (), ALONE, "protected"),
        (goes_on_after_a_refusal, ON_THE_WAY, ALONE, "deserved"),
        (does_not_wait_for_the_dataset, (), ALONE, "sealed first"),
        (does_not_wait_for_former_pods, (faults.crash, slow_endings), ALONE, "one attempt"),
        (deletes_before_it_records, CLUSTER, ALONE, "record first"),
        (uses_a_number_again, CLUSTER, ALONE, "one pod a name"),
        (forgets_former_attempts, (late_pods, faults.evict), ALONE, "late pods"),
        (succeeds_with_its_first_worker, (), ALONE, "true success"),
        (runs_after_its_end, (), ALONE, "conditions"),
        (forgets_how_members_ended, (vanish_when_ended,), ALONE, "record first"),
        (charges_disruptions_to_the_program, CLUSTER, ALONE, "deserved"),
        (refunds_any_charge, (faults.crash,), ALONE, "record first"),
        (gives_up_too_early, CLUSTER, ALONE, "deserved"),
        (believes_in_suspension_at_once, (faults.suspend,), ALONE, "suspended"),
        (takes_everything_for_its_own, (faults.occupy,), ALONE, "own objects"),
        (records_the_end_again_and_again, (), ALONE, "rest"),
        (never_starts_again, CLUSTER, ALONE, "right end"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_a_bug_is_found(
    bug: Callable[[Patch], None],
    kinds: Sequence[Fault],
    operators: tuple[int, bool],
    invariant: str,
    monkeypatch: Patch,
) -> None:
    bug(monkeypatch)
    found: set[str] = set()
    number, has_lease = operators
    for seed in range(SCHEDULES):
        plan = schedule.draw(seed, kinds, [number], [has_lease])
        outcome = schedule.run(plan)
        found |= {item.invariant for item in outcome.violations}
        if invariant in found:
            return
    raise AssertionError(f"only {found or 'nothing'} is violated")
