"""Decisions as stories: one job in a simulated cluster, from its first pass to its cleanup."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from imagenet_operator.api.problems import Problem
from imagenet_operator.api.status import Status
from imagenet_operator.errors import InvalidJob
from imagenet_operator.manifests import dataset, labels
from imagenet_operator.manifests import settings as manifests
from imagenet_operator.reconcile import sample as samples
from imagenet_operator.reconcile.decide import decide
from imagenet_operator.reconcile.status import matters_differently
from imagenet_operator.reconcile.types import Decision, Event, Observed, Settings
from support.job_table import OWN_PROGRAM, PREPARED, manifest
from support.simulated_cluster import SimulatedCluster, condition
from support.simulated_world import START

ROOMY = {"a": 3, "b": 3}
EVERYTHING = manifests.Settings(pod_disruption_budget=True)
Stop = Callable[[SimulatedCluster], bool]


def make(
    nodes: dict[str, int] | None = None, *, tells_capacity: bool = False, **run_policy: Any
) -> SimulatedCluster:
    """A job that is made anew: 2 workers, 2 servers, 1 scheduler."""
    document = manifest(run_policy=run_policy)
    settings = Settings(disruption_limit=2, manifests=EVERYTHING)
    return SimulatedCluster(document, nodes or ROOMY, settings, tells_capacity=tells_capacity)


def play(cluster: SimulatedCluster, until: Stop) -> SimulatedCluster:
    """Let everything go well, with passes, until something holds."""
    for _ in range(300):
        if until(cluster):
            return cluster
        cluster.turn()
        cluster.look()
        if cluster.next_look is None or cluster.next_look > cluster.now:
            cluster.now += timedelta(seconds=5)
    raise AssertionError(f"this does not come: {cluster.status!r}")


def is_running(cluster: SimulatedCluster) -> bool:
    return cluster.status.phase == "Running"


def is_over(cluster: SimulatedCluster) -> bool:
    return cluster.status.completion_time is not None


def is_in_attempt(number: int) -> Stop:
    return lambda cluster: (
        is_running(cluster)
        and cluster.status.training is not None
        and cluster.status.training.attempt == number
    )


def running(nodes: dict[str, int] | None = None, **run_policy: Any) -> SimulatedCluster:
    return play(make(nodes, **run_policy), is_running)


def pod(cluster: SimulatedCluster, name: str) -> dict[str, Any]:
    return cluster.objects["Pod", name]


def worker_arguments(cluster: SimulatedCluster, name: str) -> dict[str, str]:
    arguments = pod(cluster, name)["spec"]["containers"][0]["args"]
    return dict(zip(arguments[::2], arguments[1::2], strict=False))


def names(cluster: SimulatedCluster, kind: str) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.of_kind(kind)]


def reasons(cluster: SimulatedCluster) -> list[str]:
    return [event.reason for event in cluster.events]


def ended_well(cluster: SimulatedCluster) -> bool:
    return said(cluster.status, "Succeeded")[0] == "True"


def said(status: Status, kind: str) -> tuple[str, str, str]:
    found = condition(status, kind)
    assert found is not None, f"{kind} was never said"
    return found.status, found.reason, found.message


# ---------------------------------------------------------------- the way of one job


def test_the_way_of_one_job() -> None:
    cluster = make()
    phases, made = [], []
    while not is_over(cluster):
        cluster.turn()
        if is_running(cluster):
            cluster.exit(cluster.finishing_workers()[0], 0)
        decision = cluster.look()
        made += [[item["metadata"]["name"] for item in decision.create]]
        phases.append(decision.status.phase)
    assert [names for names in made if names] == [
        ["digits-dataset", "digits-preparation", "digits-index"],
        ["digits-pack"],
        ["digits-seal"],
        [
            *("digits-r0", "digits-r0", "digits-r0"),
            "digits-r0-scheduler-0",
            "digits-r0-server-0",
            "digits-r0-server-1",
            "digits-r0-worker-0",
            "digits-r0-worker-1",
        ],
    ]
    assert list(dict.fromkeys(phases)) == ["Preparing", "Starting", "Running", "Succeeded"]
    assert reasons(cluster) == ["DatasetReady", "AttemptStarted", "Running", "Succeeded"]
    assert cluster.events[0].message == (
        "dataset 0123456789ab with 1,200 + 100 images in 9 classes (1 with too few images): "
        "all shards are verified"
    )
    assert cluster.status.dataset is not None
    assert cluster.status.dataset.sealed


def test_a_dataset_that_is_sealed_already_is_used_at_once() -> None:
    cluster = make()
    cluster.index_result["sealed"] = True
    play(cluster, is_running)
    assert names(cluster, "Job") == ["digits-index"]
    assert said(cluster.status, "DatasetReady")[:2] == ("True", "Reused")


def test_a_prepared_source_needs_no_preparation() -> None:
    document = manifest(dataset={"source": PREPARED})
    del document["spec"]["dataset"]["volume"]
    cluster = SimulatedCluster(document, ROOMY)
    cluster.is_sealed = True
    play(cluster, is_running)
    assert (names(cluster, "Job"), names(cluster, "PersistentVolumeClaim")) == ([], [])
    assert said(cluster.status, "DatasetReady")[:2] == ("True", "Prepared")


def test_a_job_that_is_being_deleted_is_left_alone() -> None:
    cluster = running()
    cluster.document["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    cluster.exit(pod(cluster, "digits-r0-worker-0"), 1)
    decision = cluster.look()
    assert (decision.create, decision.delete, decision.patch, decision.events) == ((), (), (), ())
    assert decision.status == cluster.status
    assert decision.again_after is None


@pytest.mark.parametrize("ttl", [None, 0])
def test_a_job_that_somebody_else_manages_is_left_alone(ttl: int | None) -> None:
    cluster = running() if ttl is None else running(ttlSecondsAfterFinished=ttl)
    for worker in cluster.finishing_workers():
        cluster.exit(worker, 0)
    if ttl is not None:
        cluster.look()
    cluster.document["spec"]["runPolicy"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    decision = cluster.look()
    assert decision == Decision(status=cluster.status)

    cluster.document["spec"]["runPolicy"]["managedBy"] = "imagenet.dev/imagenet-operator"
    decision = cluster.look()
    assert decision != Decision(status=cluster.status)


def test_a_job_that_somebody_else_manages_is_never_begun() -> None:
    cluster = make(managedBy="kueue.x-k8s.io/multikueue")
    for _ in range(3):
        assert cluster.look() == Decision(status=Status())
        cluster.now += timedelta(days=1)
    assert cluster.objects == {}


def test_a_pass_without_news_changes_nothing() -> None:
    cluster = running(progressDeadlineSeconds=100, activeDeadlineSeconds=1000)
    cluster.look()
    before = cluster.status
    decision = cluster.look()
    assert (decision.create, decision.delete, decision.patch, decision.events) == ((), (), (), ())
    assert not matters_differently(before, decision.status)
    assert decision.again_after == timedelta(seconds=100)


def test_an_unfinished_job_is_looked_at_again_whatever_happens() -> None:
    assert running().look().again_after == Settings().heartbeat


# ---------------------------------------------------------------- what cannot be built


def test_a_template_that_cannot_be_merged_fails_the_job_before_anything_is_made() -> None:
    template = {"spec": {"restartPolicy": "Always"}}
    document = manifest(training={"workers": {"replicas": 2, "template": template}})
    cluster = SimulatedCluster(document, ROOMY)
    decision = cluster.look()
    assert decision.create == ()
    status, reason, message = said(cluster.status, "Failed")
    assert (status, reason) == ("True", "InvalidTemplate")
    assert message.startswith("spec.training.workers.template.spec.restartPolicy")
    cluster.settle()
    assert reasons(cluster) == ["InvalidTemplate"]


def test_a_template_that_went_wrong_during_a_suspension_fails_the_job() -> None:
    cluster = running()
    cluster.suspend(True)
    play(cluster, lambda found: found.status.phase == "Suspended")
    workers = cluster.document["spec"]["training"]["workers"]
    workers["template"] = {"spec": {"restartPolicy": "Always"}}
    cluster.suspend(False)
    cluster.settle()
    assert said(cluster.status, "Failed")[:2] == ("True", "InvalidTemplate")
    assert names(cluster, "Pod") == [name for name in names(cluster, "Pod") if "-r" not in name]


def test_a_job_that_cannot_be_built_is_an_invalid_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise InvalidJob([Problem("spec.dataset", "cannot be listed")])

    monkeypatch.setattr(dataset, "index_job", refuse)
    cluster = make()
    cluster.settle()
    assert said(cluster.status, "Failed")[:2] == ("True", "InvalidSpec")


def with_claim(*modes: str) -> SimulatedCluster:
    """A job whose source stands on a claim of somebody else's."""
    cluster = make()
    cluster.occupy("PersistentVolumeClaim", "raw")
    cluster.objects["PersistentVolumeClaim", "raw"]["spec"] = {"accessModes": list(modes)}
    return cluster


def test_a_claim_for_one_pod_that_several_would_use_fails_the_job_before_anything_is_made() -> None:
    cluster = with_claim("ReadWriteOncePod")
    assert cluster.look().create == ()
    status, reason, message = said(cluster.status, "Failed")
    assert (status, reason) == ("True", "InvalidSpec")
    assert message.startswith("spec.dataset.source.volume.claimName: raw allows ReadWriteOncePod")
    assert "ReadWriteMany" in message


def test_a_claim_for_one_node_keeps_the_pods_that_use_it_together() -> None:
    cluster = with_claim("ReadWriteOnce")
    cluster.look()
    assert cluster.status.single_node_claims == ("raw",)
    # It is not looked at again: what a claim allows never changes.
    cluster.vacate()
    play(cluster, lambda found: "digits-pack" in names(found, "Job"))
    template = cluster.objects["Job", "digits-pack"]["spec"]["template"]
    assert "podAffinity" in template["spec"]["affinity"]
    cluster.settle()
    assert ended_well(cluster)


# ---------------------------------------------------------------- preparation


@pytest.mark.parametrize("role", ["index", "pack", "seal"])
def test_a_step_that_fails_fails_the_job_in_its_own_words(role: str) -> None:
    cluster = play(make(), lambda found: f"digits-{role}" in names(found, "Job"))
    cluster.fail_job(cluster.objects["Job", f"digits-{role}"], "class n01440764 is truncated")
    cluster.settle()
    words = f"{role}: class n01440764 is truncated"
    assert said(cluster.status, "Failed") == ("True", "PreparationFailed", words)
    assert said(cluster.status, "DatasetReady") == ("False", "PreparationFailed", words)
    assert cluster.created_pods == []


def is_indexed(cluster: SimulatedCluster) -> bool:
    job = cluster.objects.get(("Job", "digits-index"))
    return job is not None and bool(job["status"].get("conditions"))


def test_index_runs_again_if_its_pod_went_before_it_was_read() -> None:
    cluster = make()
    while not is_indexed(cluster):
        cluster.look()
        cluster.turn()
    first = cluster.objects["Job", "digits-index"]["metadata"]["uid"]
    cluster.lose_job_pods()
    cluster.look()
    assert names(cluster, "Job") == []
    cluster.look()
    assert cluster.objects["Job", "digits-index"]["metadata"]["uid"] != first
    cluster.settle()
    assert ended_well(cluster)


def test_a_result_that_cannot_be_read_fails_the_job() -> None:
    cluster = make()
    cluster.index_result = {"key": "k"}
    cluster.settle()
    _, reason, message = said(cluster.status, "Failed")
    assert reason == "PreparationFailed"
    assert message == """index left no result that can be read: '{"key": "k"}'"""


def test_images_that_were_skipped_are_told_of() -> None:
    cluster = make()
    cluster.seal_result = {"images": {"train": 1198, "validation": 99}, "skipped": 3}
    play(cluster, is_running)
    found = cluster.status.dataset
    assert found is not None
    assert (found.images.train, found.images.validation, found.skipped_images) == (1198, 99, 3)
    assert cluster.events[1] == Event(
        "Warning", "ImagesSkipped", "3 damaged images were left out; skipped.jsonl names them"
    )


def test_seal_needs_nobody_to_hear_its_counts() -> None:
    cluster = make()
    while not cluster.is_sealed:
        cluster.look()
        cluster.turn()
    cluster.lose_job_pods()
    play(cluster, is_running)
    found = cluster.status.dataset
    assert found is not None
    assert (found.images.train, found.skipped_images) == (1200, 0)


def test_a_job_that_is_lost_is_made_again() -> None:
    cluster = play(make(), lambda found: "digits-pack" in names(found, "Job"))
    cluster.lose_job(cluster.objects["Job", "digits-pack"])
    cluster.look()
    assert "digits-pack" in names(cluster, "Job")


def test_a_step_whose_pod_is_lost_with_its_node_is_begun_again() -> None:
    cluster = play(
        make({"a": 3, "b": 3, "c": 3}), lambda found: "digits-pack" in names(found, "Job")
    )
    former = cluster.objects["Job", "digits-pack"]
    cluster.strand(former, "b")
    cluster.look()
    assert reasons(cluster) == ["NodeLost"]
    cluster.look()
    assert cluster.objects["Job", "digits-pack"]["metadata"]["uid"] != former["metadata"]["uid"]
    assert cluster.status.restarts == cluster.status.disruptions == 0
    cluster.settle()
    assert ended_well(cluster)
    assert reasons(cluster).count("NodeLost") == 1


def test_what_index_found_is_recorded_before_anything_relies_on_it() -> None:
    cluster = make()
    while not is_indexed(cluster):
        cluster.look()
        cluster.turn()
    decision = cluster.look()
    assert (decision.create, decision.again_after) == ((), timedelta(0))
    assert decision.status.dataset is not None
    assert [item["metadata"]["name"] for item in cluster.look().create] == ["digits-pack"]


def test_the_preparation_has_a_deadline_that_stands_still_while_suspended() -> None:
    cluster = make(preparationDeadlineSeconds=100)
    assert cluster.look().again_after == timedelta(seconds=100)
    cluster.now += timedelta(seconds=60)
    cluster.suspend(True)
    cluster.look()
    cluster.now += timedelta(seconds=5000)
    cluster.suspend(False)
    assert cluster.look().again_after == timedelta(seconds=40)
    cluster.now += timedelta(seconds=40)
    cluster.settle()
    assert said(cluster.status, "Failed") == (
        "True",
        "PreparationDeadlineExceeded",
        "preparing the dataset took over 100 s",
    )
    assert cluster.unfinished_jobs() == []
    assert cluster.status.preparation is not None
    assert cluster.status.preparation.since is None, "its clock stands"


def test_a_claim_that_is_being_deleted_is_waited_for() -> None:
    cluster = make()
    cluster.look()
    claim = cluster.objects["PersistentVolumeClaim", "digits-dataset"]
    claim["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert cluster.look().again_after == Settings().patience
    assert said(cluster.status, "DatasetReady")[:2] == ("False", "ClaimTerminating")
    cluster.remove(claim)
    made = cluster.look().create
    assert [item["metadata"]["name"] for item in made] == ["digits-dataset"]


def test_retention_is_carried_over_to_claims_while_the_job_is_there() -> None:
    cluster = play(make(), lambda found: bool(names(found, "PersistentVolumeClaim")))
    claim = cluster.objects["PersistentVolumeClaim", "digits-dataset"]
    assert not claim["metadata"].get("ownerReferences")
    cluster.document["spec"]["runPolicy"]["retentionPolicy"] = "Delete"
    cluster.look()
    assert claim["metadata"]["ownerReferences"][0]["uid"] == cluster.job.metadata.uid
    cluster.settle()
    cluster.document["spec"]["runPolicy"]["retentionPolicy"] = "Retain"
    cluster.look()
    assert claim["metadata"]["ownerReferences"] == []


def test_a_claim_that_the_job_does_not_ask_for_is_none_of_its_business() -> None:
    """It is of a former job of this name, and keeps what that one has written."""
    cluster = make(retentionPolicy="Delete")
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "digits-output",
            "namespace": "vision",
            "uid": "of-a-former-job",
            "labels": labels.of_child("digits", "output"),
            "deletionTimestamp": "2026-01-02T03:04:05Z",
        },
        "spec": {"accessModes": ["ReadWriteMany"]},
    }
    cluster.objects["PersistentVolumeClaim", "digits-output"] = made
    cluster.look()
    assert "digits-index" in names(cluster, "Job")
    del made["metadata"]["deletionTimestamp"]
    cluster.settle()
    assert ended_well(cluster)
    assert not made["metadata"].get("ownerReferences")


# ---------------------------------------------------------------- names that others hold


@pytest.mark.parametrize(
    ("kind", "name", "spoken_of"),
    [
        ("PersistentVolumeClaim", "digits-dataset", "DatasetReady"),
        ("Job", "digits-pack", "DatasetReady"),
        ("Service", "digits-r0", "Running"),
        ("Pod", "digits-r0-worker-1", "Running"),
    ],
)
def test_a_name_that_somebody_else_holds_is_waited_for(
    kind: str, name: str, spoken_of: str
) -> None:
    cluster = make()
    cluster.occupy(kind, name)

    def is_in_conflict(found: SimulatedCluster) -> bool:
        said_so = condition(found.status, spoken_of)
        return said_so is not None and said_so.reason == "NameConflict"

    play(cluster, is_in_conflict)
    assert said(cluster.status, spoken_of)[2] == (
        f"{kind} {name} belongs to Other theirs (UID other); waiting until the name is free"
    )
    for _ in range(3):
        assert cluster.look().again_after == Settings().patience
    assert reasons(cluster).count("NameConflict") == 1
    assert (kind, name) in cluster.objects
    assert not cluster.created_pods
    cluster.vacate()
    cluster.settle()
    assert ended_well(cluster)


# ---------------------------------------------------------------- restarts


def test_a_failure_is_charged_and_restarted_under_new_names() -> None:
    cluster = running()
    cluster.exit(pod(cluster, "digits-r0-worker-1"), 1, "loss is NaN")
    decision = cluster.look()
    assert (decision.create, decision.delete) == ((), ())
    assert decision.again_after == timedelta(0), "what is left of it goes at once"
    status = cluster.status
    assert status.training is not None
    assert status.training.outcome is not None
    assert (status.restarts, status.disruptions, status.phase) == (1, 0, "Restarting")
    assert status.training.outcome.reason == "MemberFailed"
    assert status.training.outcome.charged
    assert {item.name: item.exit_code for item in status.training.members}[
        "digits-r0-worker-1"
    ] == 1
    assert cluster.events[-1].message.startswith(
        "attempt 0: digits-r0-worker-1 exited with 1: loss is NaN; next attempt in "
    )
    deleted = {item.name for item in cluster.look().delete}
    assert deleted == {*cluster.created_pods, "digits-r0"}
    play(cluster, is_in_attempt(1))
    assert said(cluster.status, "Restarting")[0] == "False"
    cluster.settle()
    assert (cluster.status.phase, cluster.status.restarts) == ("Succeeded", 1)


def test_the_next_attempt_waits_until_no_pod_of_the_former_is_left_and_its_time_has_come() -> None:
    cluster = running()
    cluster.exit(pod(cluster, "digits-r0-server-0"), 134)
    cluster.look()
    cluster.look()
    cluster.now += timedelta(seconds=60)
    assert cluster.look().create == ()
    for item in cluster.terminating():
        cluster.finalize(item)
    assert len(cluster.look().create) == 8

    cluster = running()
    cluster.exit(pod(cluster, "digits-r0-server-0"), 134)
    cluster.look()
    cluster.look()
    for item in cluster.terminating():
        cluster.finalize(item)
    decision = cluster.look()
    assert decision.create == ()
    assert decision.again_after is not None
    assert timedelta(seconds=7) < decision.again_after <= timedelta(seconds=10)
    cluster.now += decision.again_after
    assert len(cluster.look().create) == 8


def test_the_last_failure_is_one_too_many() -> None:
    cluster = make(backoffLimit=1)
    for number in range(2):
        play(cluster, is_in_attempt(number))
        cluster.exit(pod(cluster, f"digits-r{number}-worker-0"), 1, "out of luck")
        cluster.look()
    assert said(cluster.status, "Failed") == (
        "True",
        "BackoffLimitExceeded",
        "no restart is left of 1; attempt 1: digits-r1-worker-0 exited with 1: out of luck",
    )
    assert (cluster.status.restarts, cluster.status.phase) == (1, "Failed")
    cluster.settle()
    assert cluster.running() == []


@pytest.mark.parametrize("code", [2, 3])
def test_a_permanent_failure_spends_no_restart(code: int) -> None:
    cluster = running(backoffLimit=6)
    cluster.exit(pod(cluster, "digits-r0-worker-0"), code, "no checkpoint there")
    cluster.settle()
    assert said(cluster.status, "Failed")[:2] == ("True", "PermanentFailure")
    assert (cluster.status.restarts, len(cluster.created_pods)) == (0, 5)


@pytest.mark.parametrize(
    ("member", "restarts"), [("digits-r0-worker-0", 1), ("digits-r0-server-0", 0)]
)
def test_only_programs_of_ours_say_by_their_code_that_a_retry_is_of_no_use(
    member: str, restarts: int
) -> None:
    """Elsewhere 2 is how Go ends after a panic, and a shell after a mistake in its script."""
    cluster = SimulatedCluster(manifest(training=OWN_PROGRAM), ROOMY)
    play(cluster, is_running)
    cluster.exit(pod(cluster, member), 2, "panic: no route to host")
    cluster.look()
    assert (cluster.status.restarts, is_over(cluster)) == (restarts, restarts == 0)


def test_disruptions_are_not_charged_but_have_a_limit() -> None:
    cluster = make(backoffLimit=0)
    for number in range(3):
        play(cluster, is_in_attempt(number))
        cluster.evict(pod(cluster, f"digits-r{number}-worker-0"))
        cluster.look()
        assert cluster.status.restarts == 0
    assert said(cluster.status, "Failed") == (
        "True",
        "DisruptionLimitExceeded",
        "disrupted too often; attempt 2: digits-r2-worker-0 was taken away: EvictionByEvictionAPI",
    )
    assert cluster.status.disruptions == 2


def test_a_pod_on_a_node_out_of_reach_does_not_hold_up_the_next_attempt() -> None:
    cluster = running({"a": 3, "b": 3, "c": 3})
    cluster.lose("b")
    cluster.evict_from_lost_nodes()
    cluster.look()
    cluster.look()
    for item in cluster.terminating():
        cluster.finalize(item)
    play(cluster, is_in_attempt(1))
    assert {item["metadata"]["name"] for item in cluster.members()} >= {
        "digits-r0-worker-0",
        "digits-r1-worker-0",
    }
    cluster.recover("b")
    cluster.settle()
    assert ended_well(cluster)


def test_a_crash_because_of_a_node_out_of_reach_is_not_charged() -> None:
    cluster = running({"a": 3, "b": 3, "c": 3}, backoffLimit=0)
    cluster.lose("b")
    cluster.exit(cluster.running()[0], 1, "a worker is gone")
    cluster.look()
    assert (cluster.status.phase, cluster.status.disruptions) == ("Restarting", 1)
    assert said(cluster.status, "Restarting")[1] == "NodeLost"
    cluster.settle()
    assert ended_well(cluster)


def test_a_hang_because_of_a_node_out_of_reach_is_not_charged() -> None:
    cluster = running({"a": 3, "b": 3, "c": 3}, backoffLimit=0, progressDeadlineSeconds=100)
    cluster.lose("b")
    cluster.now += timedelta(seconds=100)
    cluster.look()
    assert (cluster.status.phase, cluster.status.disruptions) == ("Restarting", 1)
    cluster.settle()
    assert ended_well(cluster)


def test_a_hang_in_which_every_pod_runs_is_ended_and_charged() -> None:
    cluster = running(progressDeadlineSeconds=300)
    cluster.hung.add(0)
    play(cluster, is_in_attempt(1))
    assert cluster.status.restarts == 1
    assert "attempt 0: training stood still for 300 s" in cluster.events[-3].message
    cluster.settle()
    assert ended_well(cluster)


def falls_silent(cluster: SimulatedCluster, patch: pytest.MonkeyPatch, attempt: int) -> None:
    """Let the operator come back, and from now on none of an attempt's members answer it."""
    since = cluster.now
    patch.setattr(
        cluster,
        "sample",
        lambda: samples.Sample(taken_at=cluster.now, asked=attempt, silent_since=since),
    )


def test_a_hang_is_ended_by_an_operator_that_never_heard_its_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = running(progressDeadlineSeconds=300)
    cluster.look()
    cluster.now += timedelta(seconds=250)
    falls_silent(cluster, monkeypatch, 0)
    assert cluster.look().again_after == timedelta(seconds=300)
    cluster.now += timedelta(seconds=299)
    cluster.look()
    assert cluster.status.phase == "Running"
    cluster.now += timedelta(seconds=1)
    cluster.look()
    assert (cluster.status.phase, cluster.status.restarts) == ("Restarting", 1)
    assert "attempt 0: no worker answered for 300 s" in cluster.events[-1].message


def test_the_next_attempt_is_not_judged_by_what_the_former_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = running(progressDeadlineSeconds=300)
    cluster.look()
    cluster.suspend(True)
    play(cluster, lambda found: found.status.phase == "Suspended")
    cluster.now += timedelta(hours=1)
    cluster.suspend(False)
    falls_silent(cluster, monkeypatch, 1)
    cluster.look()
    play(cluster, is_in_attempt(1))
    for _ in range(5):
        cluster.now += timedelta(hours=1)
        cluster.look()
    assert (cluster.status.phase, cluster.status.restarts) == ("Running", 0)


def test_without_a_sampler_nothing_is_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = running(progressDeadlineSeconds=300)
    cluster.look()
    monkeypatch.setattr(cluster, "sample", lambda: None)
    cluster.now += timedelta(days=1)
    cluster.look()
    assert (cluster.status.phase, cluster.status.restarts) == ("Running", 0)


@pytest.mark.parametrize("kind", ["Service", "NetworkPolicy", "PodDisruptionBudget"])
def test_what_members_share_is_made_again_if_it_is_lost(kind: str) -> None:
    cluster = running()
    cluster.remove(cluster.objects[kind, "digits-r0"])
    cluster.look()
    assert (kind, "digits-r0") in cluster.objects
    assert cluster.status.restarts == 0


def test_what_protects_the_preparation_is_made_again_if_it_is_lost() -> None:
    cluster = play(make(), lambda found: "digits-pack" in names(found, "Job"))
    cluster.remove(cluster.objects["NetworkPolicy", "digits-preparation"])
    decision = cluster.look()
    assert [item["metadata"]["name"] for item in decision.create] == ["digits-preparation"]


def test_members_on_their_way_out_stay_protected() -> None:
    cluster = running()
    cluster.exit(pod(cluster, "digits-r0-worker-1"), 1)
    cluster.look()
    gone = {item.kind for item in cluster.look().delete}
    assert gone == {"Pod", "Service", "PodDisruptionBudget"}
    for item in cluster.terminating():
        cluster.finalize(item)
    assert {item.kind for item in cluster.look().delete} == {"NetworkPolicy"}


# ---------------------------------------------------------------- creation that is cut off


def creating(**run_policy: Any) -> SimulatedCluster:
    """A job whose next pass creates its first attempt."""

    def is_ready(found: SimulatedCluster) -> bool:
        said_so = condition(found.status, "DatasetReady")
        return said_so is not None and said_so.status == "True"

    return play(make(**run_policy), is_ready)


@pytest.mark.parametrize("actions", range(8))
def test_an_attempt_that_was_created_in_part_is_withdrawn(actions: int) -> None:
    cluster = creating()
    cluster.look(cut_after=actions)
    assert cluster.status.training is None
    play(cluster, is_running)
    assert cluster.status.training is not None
    assert cluster.status.training.attempt == min(actions, 1)
    assert ("CreationCutOff" in reasons(cluster)) is (actions > 0)
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 0)


def test_creations_that_are_cut_off_again_and_again_come_less_and_less_often() -> None:
    """A quota that is one pod short stays so: every try costs the creation of all the others."""
    cluster = creating(schedulingPolicy={"scheduleTimeoutSeconds": 300})
    waits: list[timedelta] = []
    for attempt in range(8):
        cluster.look(cut_after=6)
        cluster.look()
        training = cluster.status.training
        assert training is not None
        assert training.outcome is not None
        assert training.next_attempt_time is not None
        assert (training.attempt, training.outcome.reason) == (attempt, "CreationCutOff")
        waits.append(training.next_attempt_time - training.outcome.time)
        while cluster.members():
            cluster.look()
            cluster.turn()
        cluster.now = training.next_attempt_time
    assert all(later >= former for former, later in itertools.pairwise(waits))
    assert waits[0] < timedelta(minutes=1)
    assert waits[-1] == timedelta(minutes=5)


def test_an_attempt_that_was_created_as_a_whole_is_taken_over() -> None:
    cluster = creating()
    cluster.look(cut_after=8)
    assert (len(cluster.created_pods), cluster.status.training) == (5, None)
    play(cluster, is_in_attempt(0))
    assert reasons(cluster) == ["DatasetReady", "AttemptStarted", "Running"]


def prepared() -> SimulatedCluster:
    cluster = SimulatedCluster(manifest(dataset={"source": PREPARED, "volume": None}), ROOMY)
    cluster.is_sealed = True
    return cluster


def test_a_prepared_dataset_is_trained_on_in_the_first_pass() -> None:
    decision = prepared().look()
    assert [item["kind"] for item in decision.create] == ["Service", "NetworkPolicy", *["Pod"] * 5]
    assert decision.status.start_time is not None
    assert decision.status.training is not None


@pytest.mark.parametrize(("is_edited", "attempt"), [(False, 0), (True, 1)])
def test_what_was_created_before_the_start_is_taken_over_unless_the_spec_has_changed(
    is_edited: bool, attempt: int
) -> None:
    cluster = prepared()
    cluster.look(cut_after=7)
    assert (len(cluster.created_pods), cluster.status.start_time) == (5, None)
    if is_edited:
        cluster.edit(lambda spec: spec["training"].update(epochs=91))
    play(cluster, is_in_attempt(attempt))
    assert ("CreationCutOff" in reasons(cluster)) is is_edited
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 0)


def test_what_was_created_of_a_resumed_job_is_not_taken_over_with_another_spec() -> None:
    cluster = running()
    cluster.suspend(True)
    play(cluster, lambda found: "Suspended" in reasons(found))
    cluster.suspend(False)
    cluster.look(cut_after=8)
    assert (len(cluster.members()), said(cluster.status, "Suspended")[0]) == (5, "True")
    cluster.edit(lambda spec: spec["training"].update(batchSize=192))
    play(cluster, is_in_attempt(2))
    assert worker_arguments(cluster, "digits-r2-worker-0")["--batch-size"] == "96"
    assert "CreationCutOff" in reasons(cluster)


def test_a_pod_of_a_former_attempt_that_comes_late_is_deleted() -> None:
    cluster = creating()
    cluster.look(cut_after=5)
    play(cluster, is_in_attempt(1))
    late = cluster.arrive()["metadata"]["name"]
    assert late == "digits-r0-server-1"
    decision = cluster.look()
    assert [item.name for item in decision.delete] == [late]
    assert is_in_attempt(1)(cluster)
    cluster.settle()
    assert ended_well(cluster)
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 0)


# ---------------------------------------------------------------- gangs


def test_a_gang_without_room_is_withdrawn_and_comes_back() -> None:
    cluster = make({"a": 4}, backoffLimit=0, schedulingPolicy={"scheduleTimeoutSeconds": 100})
    play(cluster, lambda found: "GangTimedOut" in reasons(found))
    assert cluster.status.phase == "Starting"
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 0)
    cluster.slots["b"] = 1
    play(cluster, is_running)
    training = cluster.status.training
    assert training is not None
    assert training.attempt > 0
    cluster.settle()
    assert ended_well(cluster)


def test_a_gang_of_which_nothing_is_heard_is_looked_at_in_time() -> None:
    cluster = creating(schedulingPolicy={"scheduleTimeoutSeconds": 100})
    decision = cluster.look()
    assert [event.reason for event in decision.events] == ["AttemptStarted"]
    assert decision.again_after == timedelta(seconds=100)


def test_a_gang_that_waits_is_bound_only_when_all_fit() -> None:
    cluster = make({"a": 4}, tells_capacity=True, schedulingPolicy={"gang": "Wait"})
    play(cluster, lambda found: len(found.created_pods) == 5)
    for _ in range(300):
        cluster.turn()
        assert cluster.look().patch == ()
        assert all("nodeName" not in item["spec"] for item in cluster.members())
        cluster.now += timedelta(seconds=30)
    assert said(cluster.status, "Running") == (
        "False",
        "Scheduling",
        "waiting until all members fit: 0 of 1 nodes have room for digits-r0-worker-1: "
        "1 with no place for another pod",
    )
    cluster.slots["b"] = 1
    assert len(cluster.look().patch) == 5
    play(cluster, is_in_attempt(0))


def test_that_room_comes_and_goes_elsewhere_is_not_worth_a_write() -> None:
    cluster = make({"a": 4}, tells_capacity=True, schedulingPolicy={"gang": "Wait"})
    play(cluster, lambda found: len(found.created_pods) == 5)
    cluster.look()
    before = cluster.status
    for room in (3, 4, 3):
        cluster.slots["a"] = room
        assert not matters_differently(before, cluster.look().status)
    cluster.slots = {}
    assert "there is no node" in said(cluster.look().status, "Running")[2]


def test_gates_are_lifted_at_once_where_capacity_is_not_known() -> None:
    cluster = play(make(schedulingPolicy={"gang": "Wait"}), is_in_attempt(0))
    training = cluster.status.training
    assert training is not None
    assert training.schedulable_time is not None


def test_an_estimate_that_was_wrong_is_covered_by_the_timeout() -> None:
    policy = {"gang": "Wait", "scheduleTimeoutSeconds": 100}
    cluster = make({"a": 4}, schedulingPolicy=policy)
    play(cluster, lambda found: "GangTimedOut" in reasons(found))


# ---------------------------------------------------------------- suspension and deadlines


def test_suspending_ends_the_attempt_uncharged_and_resuming_starts_the_next() -> None:
    cluster = running(backoffLimit=0)
    cluster.suspend(True)
    cluster.look()
    cluster.look()
    assert cluster.status.phase == "Starting"
    assert condition(cluster.status, "Suspended") is None
    play(cluster, lambda found: found.status.phase == "Suspended")
    assert cluster.members() == []
    assert not [found for found in cluster.objects if found[1] == "digits-r0"]
    for _ in range(5):
        cluster.now += timedelta(hours=1)
        assert cluster.look().create == ()
    cluster.suspend(False)
    cluster.look()
    play(cluster, is_in_attempt(1))
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 0)
    assert reasons(cluster)[3:] == ["Suspended", "AttemptStarted", "Resumed", "Running"]
    assert said(cluster.status, "Suspended")[:2] == ("False", "Resumed")


def test_workers_that_changed_during_a_suspension_train_in_the_next_attempt() -> None:
    cluster = running()
    folder = worker_arguments(cluster, "digits-r0-worker-0")["--output"]
    cluster.suspend(True)
    play(cluster, lambda found: found.status.phase == "Suspended")
    assert ("PersistentVolumeClaim", "digits-dataset") in cluster.objects
    training = cluster.document["spec"]["training"]
    training["workers"] = {"replicas": 4, "template": {"metadata": {"labels": {"pool": "b"}}}}
    training["batchSize"] = 1024
    cluster.slots["c"] = 3
    cluster.suspend(False)
    cluster.look()
    play(cluster, is_in_attempt(1))
    workers = [item for item in cluster.members() if "-worker-" in item["metadata"]["name"]]
    assert [item["metadata"]["labels"]["pool"] for item in workers] == ["b"] * 4
    arguments = worker_arguments(cluster, "digits-r1-worker-3")
    # What was trained so far is where it was, and the batch is shared among more.
    assert (arguments["--output"], arguments["--batch-size"]) == (folder, "256")
    cluster.settle()
    assert ended_well(cluster)


def test_suspending_the_preparation_suspends_its_jobs() -> None:
    cluster = play(make(), lambda found: "digits-pack" in names(found, "Job"))
    job = cluster.objects["Job", "digits-pack"]
    cluster.suspend(True)
    cluster.look()
    assert job["spec"]["suspend"] is True
    play(cluster, lambda found: found.status.phase == "Suspended")
    cluster.suspend(False)
    cluster.look()
    assert job["spec"]["suspend"] is False
    cluster.settle()
    assert ended_well(cluster)


def test_a_job_may_be_suspended_from_the_beginning() -> None:
    cluster = make(suspend=True)
    cluster.look()
    assert (cluster.status.phase, cluster.objects) == ("Suspended", {})
    cluster.suspend(False)
    cluster.settle()
    assert ended_well(cluster)


def test_a_job_on_a_prepared_dataset_may_be_suspended_from_the_beginning() -> None:
    document = manifest(
        dataset={"source": PREPARED, "volume": None},
        training={"output": {"volume": {"size": "10Gi"}}},
        run_policy={"suspend": True},
    )
    cluster = SimulatedCluster(document, ROOMY)
    cluster.is_sealed = True
    cluster.look()
    assert (cluster.status.phase, cluster.objects) == ("Suspended", {})
    cluster.suspend(False)
    cluster.settle()
    assert ended_well(cluster)
    assert names(cluster, "PersistentVolumeClaim") == ["digits-output"]


def test_only_training_counts_towards_the_active_deadline() -> None:
    cluster = running(activeDeadlineSeconds=120)
    cluster.now += timedelta(seconds=60)
    cluster.suspend(True)
    play(cluster, lambda found: found.status.phase == "Suspended")
    cluster.now += timedelta(hours=5)
    cluster.suspend(False)
    play(cluster, is_running)
    cluster.now += timedelta(seconds=30)
    cluster.look()
    assert not is_over(cluster)
    cluster.now += timedelta(seconds=20)
    cluster.settle()
    assert said(cluster.status, "Failed")[1:] == ("DeadlineExceeded", "training took over 120 s")
    assert cluster.running() == []
    assert said(cluster.status, "Running")[:2] == ("False", "DeadlineExceeded")


def test_hours_without_an_operator_in_which_nothing_ran_do_not_count() -> None:
    cluster = running(activeDeadlineSeconds=3600)
    cluster.now += timedelta(seconds=60)
    cluster.exit(pod(cluster, "digits-r0-worker-0"), 1)
    cluster.now += timedelta(hours=8)
    cluster.look()
    assert not is_over(cluster)
    assert cluster.status.training is not None
    # 5 of them before this test's first.
    assert cluster.status.training.clock.seconds == 65


def test_hours_without_an_operator_after_success_do_not_count() -> None:
    cluster = running()
    cluster.now += timedelta(seconds=50)
    cluster.exit(pod(cluster, "digits-r0-worker-1"), 0)
    cluster.now += timedelta(seconds=10)
    cluster.exit(pod(cluster, "digits-r0-worker-0"), 0)
    cluster.now += timedelta(hours=8)
    cluster.look()
    assert ended_well(cluster)
    assert cluster.status.training is not None
    # 5 of them before this test's first.
    assert cluster.status.training.clock.seconds == 65


def test_no_attempt_starts_when_the_time_is_used_up() -> None:
    cluster = running(activeDeadlineSeconds=100)
    cluster.now += timedelta(seconds=100)
    cluster.exit(pod(cluster, "digits-r0-worker-0"), 1)
    cluster.settle()
    assert said(cluster.status, "Failed")[1] == "DeadlineExceeded"
    assert len(cluster.created_pods) == 5


# ---------------------------------------------------------------- success and after


def test_a_finished_worker_that_vanishes_undoes_nothing() -> None:
    cluster = running(backoffLimit=0)
    first, second = cluster.finishing_workers()
    cluster.exit(first, 0)
    cluster.look()
    cluster.vanish(first)
    cluster.look()
    assert is_running(cluster)
    cluster.exit(second, 0)
    cluster.look()
    assert (cluster.status.phase, cluster.status.disruptions) == ("Succeeded", 0)


def test_a_worker_that_vanished_before_its_end_was_seen_is_a_disruption() -> None:
    cluster = running()
    first = cluster.finishing_workers()[0]
    cluster.exit(first, 0)
    cluster.vanish(first)
    cluster.look()
    assert (cluster.status.phase, cluster.status.disruptions) == ("Restarting", 1)


def test_a_server_that_fails_after_the_last_worker_changes_nothing() -> None:
    cluster = running()
    for worker in cluster.finishing_workers():
        cluster.exit(worker, 0)
    cluster.exit(pod(cluster, "digits-r0-server-0"), 134)
    cluster.look()
    assert (cluster.status.phase, cluster.status.restarts) == ("Succeeded", 0)


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (
            "None",
            {
                *("digits-preparation", "digits-index", "digits-pack", "digits-seal", "digits-r0"),
                *("digits-r0-scheduler-0", "digits-r0-server-0", "digits-r0-server-1"),
                *("digits-r0-worker-0", "digits-r0-worker-1"),
            },
        ),
        (
            "Running",
            {
                *("digits-index", "digits-pack", "digits-seal"),
                *("digits-r0-worker-0", "digits-r0-worker-1"),
            },
        ),
        ("All", set()),
    ],
)
def test_the_rest_goes_by_policy(policy: str, kept: set[str]) -> None:
    cluster = running(cleanPodPolicy=policy)
    cluster.lose_job_pods()
    for worker in cluster.finishing_workers():
        cluster.exit(worker, 0)
    cluster.look()
    cluster.look()
    for item in cluster.terminating():
        cluster.finalize(item)
    cluster.look()
    left = {name for _, name in cluster.objects} - {"digits-dataset"}
    assert left == kept
    assert ("PersistentVolumeClaim", "digits-dataset") in cluster.objects
    assert cluster.look().delete == ()


def test_a_finished_job_is_deleted_when_its_time_is_over() -> None:
    cluster = running(ttlSecondsAfterFinished=600)
    cluster.settle()
    assert cluster.is_deleted
    ended = cluster.status.completion_time
    assert ended is not None
    assert timedelta(seconds=600) <= cluster.now - ended < timedelta(seconds=660)


def test_a_finished_job_is_not_deleted_before_its_claims_are_let_go() -> None:
    cluster = running(ttlSecondsAfterFinished=600, retentionPolicy="Delete")
    for worker in cluster.finishing_workers():
        cluster.exit(worker, 0)
    play(cluster, is_over)
    cluster.document["spec"]["runPolicy"]["retentionPolicy"] = "Retain"
    cluster.now += timedelta(seconds=600)
    decided = cluster.look()
    assert [patch.name for patch in decided.patch] == ["digits-dataset"]
    assert "ImageNetJob" not in {item.kind for item in decided.delete}
    assert decided.again_after == Settings().patience
    cluster.settle()
    assert cluster.is_deleted
    claim = cluster.objects["PersistentVolumeClaim", "digits-dataset"]
    assert claim["metadata"]["ownerReferences"] == []


def test_a_finished_job_takes_no_further_part_in_anything() -> None:
    cluster = running()
    cluster.settle()
    before = cluster.status
    cluster.suspend(True)
    cluster.look()
    assert cluster.status.conditions == before.conditions
    assert cluster.look().again_after is None


# ---------------------------------------------------------------- figures


def test_figures_of_the_newest_sample_are_in_the_status() -> None:
    cluster = running()
    heard = samples.Sample(
        taken_at=cluster.now,
        attempt=0,
        epoch=3,
        epochs=90,
        batch=10,
        batches_per_epoch=20,
        images_per_second=512.0,
        accuracy=0.25,
        progressed_at=cluster.now,
    )
    decision = decide(cluster.job, Observed(), heard, START)
    training = decision.status.training
    assert training is not None
    assert training.epoch == 3
    assert training.accuracy is not None
    assert training.accuracy.train == 0.25
    # The observation is empty, so the attempt ends here, and with it what was of now.
    assert training.outcome is not None
    assert (training.images_per_second, training.estimated_remaining_seconds) == (None, None)


def test_members_and_replicas_are_counted_as_they_come_and_go() -> None:
    cluster = running()
    cluster.exit(cluster.finishing_workers()[0], 0)
    cluster.look()
    training = cluster.status.training
    assert training is not None
    counted = {role: found.to_manifest() for role, found in training.replica_statuses.items()}
    assert counted == {
        "scheduler": {"active": 1, "succeeded": 0, "failed": 0},
        "server": {"active": 2, "succeeded": 0, "failed": 0},
        "worker": {"active": 1, "succeeded": 1, "failed": 0},
    }
    cluster.settle()
    training = cluster.status.training
    assert training is not None
    assert sum(found.active for found in training.replica_statuses.values()) == 0


def test_running_says_where_an_attempt_stands() -> None:
    cluster = make()
    seen = []
    while not is_running(cluster):
        cluster.turn()
        cluster.look()
        if (found := condition(cluster.status, "Running")) is not None:
            seen.append(found.reason)
    assert list(dict.fromkeys(seen)) == ["Scheduling", "AllMembersRunning"]

    cluster = creating()
    cluster.look()
    for item in cluster.pending():
        cluster.bind(item)
    cluster.look()
    assert said(cluster.status, "Running") == (
        "False",
        "Starting",
        "all members have nodes; waiting for them to run",
    )


def test_an_attempt_that_is_over_before_anybody_looks_succeeds() -> None:
    cluster = creating()
    cluster.look()
    for _ in range(2):
        cluster.turn()
    for item in cluster.finishing_workers():
        cluster.exit(item, 0)
    cluster.look()
    assert ended_well(cluster)
    assert said(cluster.status, "Running")[:2] == ("False", "Succeeded")


def test_the_time_that_the_preparation_took_stays_in_the_status() -> None:
    cluster = make()
    cluster.look()
    cluster.now += timedelta(seconds=77)
    play(cluster, lambda found: found.status.phase == "Starting")
    assert cluster.status.preparation is not None
    assert cluster.status.preparation.since is None
    assert cluster.status.preparation.seconds >= 77


def test_a_single_worker_needs_nobody() -> None:
    single = {"strategy": {"single": {}}, "workers": {"replicas": 1}}
    cluster = SimulatedCluster(manifest(training=single), ROOMY)
    cluster.settle()
    assert cluster.created_pods == ["digits-r0-worker-0"]
    assert ended_well(cluster)
