"""Waiting: each cause in the words of Kubernetes, with what follows; the limit of start errors."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from imagenet_operator.reconcile.policies import waiting
from imagenet_operator.reconcile.policies.waiting import CAUSES, REASONS
from imagenet_operator.reconcile.types import (
    CREATING,
    INITIALIZING,
    NO_PODS,
    NOT_SCHEDULED,
    QUEUED,
    TERMINATING,
    ObjectEvent,
    Refusal,
    WaitingObject,
)
from imagenet_spec.resource.status import StartErrors, TrainingStatus
from support.sentences import assert_says
from support.simulated_world import START

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
POD = "digits-r0-worker-0"
MISSING = 'MountVolume.SetUp failed for volume "keys" : secret "keys" not found'


def stuck(
    reason: str,
    message: str = "",
    *,
    name: str = POD,
    seconds: float = 30,
    kind: str = "Pod",
    node: str | None = "n1",
    finalizers: tuple[str, ...] = (),
    beside_running: bool = False,
) -> WaitingObject:
    since = NOW - timedelta(seconds=seconds)
    return WaitingObject(
        kind,
        name,
        f"uid-of-{name}",
        "worker",
        0,
        reason,
        message,
        since,
        node,
        finalizers,
        beside_running,
    )


def found(
    *objects: WaitingObject, event: ObjectEvent | None = None, former: str = ""
) -> waiting.Wait | None:
    events = {} if event is None else {item.uid: event for item in objects}
    return waiting.find(objects, events, NOW, former)


def said(*objects: WaitingObject, former: str = "") -> str:
    wait = found(*objects, former=former)
    assert wait is not None
    return wait.message


# Reason in the pod's status, message there, the condition's reason, facts of its message.
OF_STATUS: list[tuple[str, str, str, tuple[str, ...]]] = [
    (
        "ErrImagePull",
        'failed to pull and unpack image "r.example/t:9": not found',
        "ImagePullBackOff",
        (
            f"{POD} on n1",
            "cannot be pulled",
            '"r.example/t:9": not found',
            "push",
            "correct its name",
            "spec.training.image",
        ),
    ),
    (
        "ImagePullBackOff",
        'Back-off pulling image "r.example/t:9": ErrImagePull: pull access denied',
        "ImagePullBackOff",
        ("cannot be pulled: pull access denied;", "push"),
    ),
    (
        "InvalidImageName",
        'Failed to apply default image tag "T:9:9": invalid reference format',
        "InvalidImageName",
        ("name of the image is invalid", "Failed to apply default image tag"),
    ),
    ("RegistryUnavailable", "503", "ImagePullBackOff", ("registry does not answer", "503")),
    (
        "SignatureValidationFailed",
        "SignatureValidationFailed: no signature",
        "SignatureValidationFailed",
        ("signature is not accepted",),
    ),
    (
        "ErrImageNeverPull",
        'Container image "t" is not present with pull policy of Never',
        "ErrImageNeverPull",
        ("not on the node", 'Container image "t"'),
    ),
    ("ImageInspectError", "Failed to inspect image", "ImageInspectError", ("cannot be read",)),
    (
        "CreateContainerConfigError",
        'secret "token" not found',
        "CreateContainerConfigError",
        ("configuration is invalid", 'secret "token" not found', "create", "correct the template"),
    ),
    (
        "CreateContainerError",
        "no device",
        "CreateContainerError",
        ("cannot be created", "no device", "correct"),
    ),
    ("RunContainerError", "exec: no such file", "RunContainerError", ("cannot be started", "exec")),
    (
        "SchedulerError",
        'running PreBind plugin "VolumeBinding": binding volumes: timed out',
        "SchedulerError",
        ("scheduler failed", 'running PreBind plugin "VolumeBinding"'),
    ),
    ("PostStartHookError", "exit 1", "PodPending", ("not start", "PostStartHookError: exit 1")),
    ("Unheard", "", "PodPending", ("not start", "Unheard")),
    ("CrashLoopBackOff", "back-off 40s", "CrashLoopBackOff", ("keeps failing", "back-off 40s")),
    (
        "Unschedulable",
        "0/5 nodes are available: 5 Insufficient nvidia.com/gpu.",
        "Unschedulable",
        ("no node fits", "0/5 nodes are available: 5 Insufficient nvidia.com/gpu."),
    ),
    ("SchedulingGated", "", "SchedulingGated", ("scheduling gate of another controller",)),
    (NOT_SCHEDULED, "", "NotScheduled", ("no scheduler",)),
    (INITIALIZING, "fetch", INITIALIZING, ("init container runs", "fetch")),
    (CREATING, "", CREATING, (f"{POD} on n1", "containers are being created")),
]


@pytest.mark.parametrize(
    ("reason", "message", "condition", "facts"), OF_STATUS, ids=[row[0] for row in OF_STATUS]
)
def test_a_status_of_a_pod_becomes_a_condition(
    reason: str, message: str, condition: str, facts: tuple[str, ...]
) -> None:
    wait = found(stuck(reason, message))
    assert wait is not None
    assert wait.reason == condition
    assert_says(wait.message, *facts)


# What an Event of the object says, the condition's reason, facts of its message, an error.
OF_EVENTS: list[tuple[str, str, str, str, tuple[str, ...], bool]] = [
    (
        CREATING,
        "FailedMount",
        MISSING,
        "FailedMount",
        ("Secret or ConfigMap that is missing", MISSING, "create"),
        True,
    ),
    (
        CREATING,
        "FailedMount",
        'MountVolume.SetUp failed for volume "c" : configmap "c" not found',
        "FailedMount",
        ("Secret or ConfigMap that is missing", 'configmap "c" not found', "create"),
        True,
    ),
    (
        CREATING,
        "FailedMount",
        "mount failed: exit status 32: Connection timed out",
        "FailedMount",
        ("volume cannot be mounted", "mount failed"),
        False,
    ),
    (
        CREATING,
        "FailedAttachVolume",
        "Multi-Attach error for volume pvc-1",
        "FailedAttachVolume",
        ("volume cannot be attached", "Multi-Attach error"),
        False,
    ),
    (
        CREATING,
        "FailedCreatePodSandBox",
        "Failed to create pod sandbox: no IP addresses",
        "FailedCreatePodSandBox",
        ("sandbox", "network", "cannot be created"),
        False,
    ),
    (CREATING, "NetworkNotReady", "cni", "NetworkNotReady", ("network is not ready", "cni"), False),
    (
        CREATING,
        "Pulling",
        'Pulling image "r.example/large:1"',
        "PullingImage",
        ("being pulled", '"r.example/large:1"'),
        False,
    ),
    (
        NO_PODS,
        "FailedCreate",
        'Error creating: pods "digits-index-x" is forbidden: exceeded quota: small, requested: '
        "pods=1, used: pods=2, limited: pods=2",
        "QuotaExceeded",
        ("pods cannot be created", "Error creating"),
        False,
    ),
    (NO_PODS, "FailedCreate", "Error: boom", "FailedCreate", ("cannot be created", "boom"), False),
]


@pytest.mark.parametrize(
    ("state", "reason", "message", "condition", "facts", "is_error"), OF_EVENTS
)
def test_an_event_of_a_stuck_object_becomes_a_condition(
    state: str, reason: str, message: str, condition: str, facts: tuple[str, ...], is_error: bool
) -> None:
    wait = found(stuck(state), event=ObjectEvent(reason, message))
    assert wait is not None
    assert (wait.reason, wait.is_error) == (condition, is_error)
    assert_says(wait.message, *facts)


# What an Event of the pod's claim says, the condition's reason, facts of its message.
OF_CLAIMS: list[tuple[str, str, str, tuple[str, ...]]] = [
    (
        "ProvisioningFailed",
        "failed to provision volume: NodePath only supports ReadWriteOnce access modes",
        "ProvisioningFailed",
        ("only supports ReadWriteOnce access modes", "delete the job and the claim"),
    ),
    (
        "ProvisioningFailed",
        'storageclass.storage.k8s.io "fast" not found',
        "ProvisioningFailed",
        ("cannot be provisioned", '"fast" not found', "create this StorageClass"),
    ),
    (
        "FailedBinding",
        "no persistent volumes available for this claim and no storage class is set",
        "FailedBinding",
        ("is not bound", "no persistent volumes available"),
    ),
    (
        "ExternalProvisioning",
        "Waiting for a volume to be created by the external provisioner 'nfs.example.com'",
        "ExternalProvisioning",
        ("not provisioned yet", "Waiting for a volume"),
    ),
]
CLAIM = "PersistentVolumeClaim digits-dataset (StorageClass fast, ReadWriteMany)"


@pytest.mark.parametrize("state", [NOT_SCHEDULED, "Unschedulable", "SchedulerError"])
@pytest.mark.parametrize(("reason", "message", "condition", "facts"), OF_CLAIMS)
def test_an_event_of_a_claim_says_why_its_pod_waits(
    state: str, reason: str, message: str, condition: str, facts: tuple[str, ...]
) -> None:
    wait = found(stuck(state, node=None), event=ObjectEvent(reason, message, CLAIM))
    assert wait is not None
    assert wait.reason == condition
    assert wait.message.startswith(f"{POD}: {CLAIM} ")
    assert_says(wait.message, *facts)


REFUSALS = [
    (
        'pods "w" is forbidden: exceeded quota: small, requested: pods=1, used: pods=4, limited: 4',
        "QuotaExceeded",
    ),
    ('pods "w" is forbidden: failed quota: q: must specify limits.cpu', "QuotaExceeded"),
    ('admission webhook "p.example.com" denied the request: no', "WebhookDenied"),
    (
        'Internal error occurred: failed calling webhook "p.example.com": connection refused',
        "WebhookFailed",
    ),
    ("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", "PolicyDenied"),
    (
        'pods "w" is forbidden: violates PodSecurity "restricted:latest": hostPath',
        "PodSecurityViolated",
    ),
    (
        'pods "w" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi',
        "LimitRangeViolated",
    ),
    (
        'pods "w" is forbidden: memory max limit to request ratio per Pod is 1',
        "LimitRangeViolated",
    ),
    ('pods "w" is forbidden: for another reason', "ApiServerRefused"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "reason"), REFUSALS)
def test_a_refusal_becomes_a_condition(message: str, reason: str) -> None:
    wait = waiting.refused(Refusal(message))
    assert wait.reason == reason
    assert wait.message.startswith(f"the API server refuses it: {message}")
    assert not wait.is_error


@pytest.mark.parametrize(
    ("reason", "seconds", "is_told"),
    [
        (CREATING, 5, False),
        (CREATING, 30, True),
        ("Unschedulable", 5, False),
        ("Unschedulable", 15, True),
        (NOT_SCHEDULED, 29, False),
        (TERMINATING, 14, False),
        (TERMINATING, 15, True),
        ("ErrImagePull", 0, True),
        ("CreateContainerConfigError", 0, True),
    ],
)
def test_an_ordinary_start_is_no_cause(reason: str, seconds: float, is_told: bool) -> None:
    assert (found(stuck(reason, seconds=seconds)) is not None) is is_told


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(20, "15 s"), (90, "1 min"), (4000, "1 h"), (90_000, "1 day"), (10**7, "1 week")],
)
def test_a_pod_that_does_not_go_is_named_with_node_age_and_finalizers(
    seconds: float, age: str
) -> None:
    item = stuck(TERMINATING, seconds=seconds, finalizers=("example.com/a", "example.com/b"))
    wait = found(item)
    assert wait is not None
    assert (wait.reason, wait.is_error) == ("PodTerminating", False)
    assert_says(wait.message, f"{POD} on n1", "being deleted", "grace period ended", f"{age} ago")
    assert_says(wait.message, "finalizers", "example.com/a, example.com/b")


def test_the_most_urgent_cause_is_told_with_the_number_of_its_pods() -> None:
    objects = [
        stuck("Unschedulable", "0/1 nodes", name="a", node=None),
        stuck("ErrImagePull", "not found", name="b"),
        stuck("ImagePullBackOff", "not found", name="c"),
    ]
    assert_says(said(*objects), "c on n1 and 1 more: ", "cannot be pulled: not found;")


def unscheduled(name: str, message: str) -> WaitingObject:
    return stuck("Unschedulable", message, name=name, node=None)


def test_a_condition_changes_only_with_what_it_says() -> None:
    first = said(unscheduled("w-1", "0/5 nodes: 5 Insufficient cpu"))
    objects = [unscheduled(f"w-{number}", "0/6 nodes: 6 Insufficient cpu") for number in (1, 10)]
    # The pod that was named stays the example, though another one comes last now.
    assert said(*objects, former=first).startswith("w-1 and 1 more: no node fits the pod: 0/6")
    assert said(objects[0], former=first) == first
    # It has a node now, so the message names another one.
    assert said(objects[1], former=first).startswith("w-10: ")
    taints = unscheduled("w-1", "0/6 nodes: 6 had untolerated taint")
    assert said(taints, former=first) != first


def test_an_error_is_told_before_a_mount_that_may_yet_succeed() -> None:
    objects = [stuck(CREATING, name=name) for name in ("a", "b")]
    events = {
        "uid-of-a": ObjectEvent("FailedMount", MISSING),
        "uid-of-b": ObjectEvent("FailedMount", "timed out"),
    }
    wait = waiting.find(objects, events, NOW)
    assert wait is not None
    assert wait.is_error
    assert wait.message.startswith("a on n1: ")
    assert_says(wait.message, "Secret or ConfigMap that is missing")


def test_a_pull_that_backs_off_keeps_the_words_of_the_pull() -> None:
    pull = said(stuck("ErrImagePull", "r.example/t:9: not found"))
    assert (
        said(stuck("ImagePullBackOff", 'Back-off pulling image "r.example/t:9"'), former=pull)
        == pull
    )
    assert "cannot be pulled; push" in said(
        stuck("ImagePullBackOff", 'Back-off pulling image "r.example/t:9"')
    )


def test_a_refusal_that_is_repeated_changes_nothing() -> None:
    first = waiting.refused(Refusal('pods "digits-r0-worker-1": exceeded quota: used: pods=4'))
    again = Refusal('pods "digits-r1-worker-0": exceeded quota: used: pods=3')
    assert waiting.refused(again, first.message) == first


def test_a_pod_whose_job_runs_others_is_told_only_of_errors_and_they_do_not_count() -> None:
    assert found(stuck("Unschedulable", beside_running=True)) is None
    wait = found(stuck("ErrImagePull", beside_running=True))
    assert wait is not None
    assert (wait.reason, wait.is_error) == ("ImagePullBackOff", False)


def test_an_error_that_counts_is_told_before_one_that_does_not() -> None:
    beside = stuck("InvalidImageName", name="a", beside_running=True)
    wait = found(beside, stuck("ErrImagePull", name="b"))
    assert wait is not None
    assert (wait.reason, wait.is_error) == ("ImagePullBackOff", True)


def test_events_are_read_only_for_what_waits_long_and_says_nothing_itself() -> None:
    objects = [
        stuck(CREATING, name="long", seconds=30),
        stuck(CREATING, name="short", seconds=29),
        stuck("ErrImagePull", name="told", seconds=600),
        stuck(NO_PODS, name="job", kind="Job", seconds=40),
        stuck("Unschedulable", name="full", seconds=600),
        replace(stuck("Unschedulable", name="unbound", seconds=30), claims=("digits-dataset",)),
    ]
    names = [item.name for item in waiting.needs_events(objects, NOW)]
    assert names == ["long", "job", "unbound"]


def test_the_next_look_is_when_a_cause_may_begin() -> None:
    interval = timedelta(seconds=30)

    def after(reason: str, seconds: float) -> float:
        due = waiting.next_check([stuck(reason, seconds=seconds)], NOW, interval)
        assert due is not None
        return (due - NOW).total_seconds()

    assert [after(CREATING, seconds) for seconds in (0, 10, 30, 600)] == [30, 20, 30, 30]
    assert [after("Unschedulable", seconds) for seconds in (0, 10, 15, 600)] == [15, 5, 30, 30]
    assert waiting.next_check([], NOW, interval) is None


def test_each_reason_is_one_word() -> None:
    assert len(REASONS) >= 12
    assert all(reason.isalnum() and reason[0].isupper() for reason in REASONS)
    rows = {row[0] for row in OF_STATUS} | {row[1] for row in OF_EVENTS}
    assert rows | {row[0] for row in OF_CLAIMS} >= (
        CAUSES.keys()
        - {TERMINATING, QUEUED, "MissingVolumeSource", "FailedMapVolume", waiting.OTHER}
    )


QUOTA = "insufficient unused quota for cpu in flavor plain, 200m more needed"


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        ("Pod", QUOTA, f"waiting in queue lq: {QUOTA}"),
        ("Pod", "", "waiting in queue lq"),
        (
            "Job",
            "LocalQueue lq is inactive",
            "Kueue holds the worker Job: LocalQueue lq is inactive",
        ),
        ("Job", "", "Kueue holds the worker Job in queue lq"),
    ],
)
def test_what_kueue_says_is_said_at_once(kind: str, words: str, message: str) -> None:
    held = stuck(QUEUED, "lq", kind=kind, node=None, seconds=0)
    event = ObjectEvent(QUEUED, words) if words else None
    assert found(held, event=event) == waiting.Wait(QUEUED, message)


def test_kueue_is_asked_once_it_has_looked() -> None:
    held = stuck(QUEUED, "lq", node=None, seconds=0)
    asked = NOW + waiting.WORDS_AFTER
    assert waiting.needs_events([held], NOW) == []
    assert waiting.next_check([held], NOW, timedelta(seconds=30)) == asked
    assert waiting.needs_events([held], asked) == [held]


def test_another_amount_that_is_missing_is_not_worth_a_write() -> None:
    held = stuck(QUEUED, "lq", node=None)
    former = f"waiting in queue lq: {QUOTA.replace('200m', '900m')}"
    again = found(held, event=ObjectEvent(QUEUED, QUOTA), former=former)
    assert again == waiting.Wait(QUEUED, former)


LATER = START + timedelta(seconds=100)
LASTING = StartErrors(since=START)


def test_the_first_error_counts_until_the_last_one_is_cleared() -> None:
    assert waiting.recorded_errors(None, False, START) is None
    assert waiting.recorded_errors(None, True, START) == LASTING
    assert waiting.recorded_errors(LASTING, True, LATER) == LASTING
    cleared = waiting.recorded_errors(LASTING, False, LATER)
    assert cleared == StartErrors(cleared=LATER)
    assert waiting.recorded_errors(cleared, False, LATER + timedelta(1)) == cleared
    assert waiting.recorded_errors(cleared, True, LATER) == StartErrors(since=LATER)


def test_the_deadline_counts_from_the_first_error() -> None:
    assert waiting.start_deadline(LASTING, 600) == START + timedelta(seconds=600)
    assert waiting.start_deadline(StartErrors(cleared=START), 600) is None
    assert waiting.start_deadline(None, 600) is None


def test_other_deadlines_count_from_the_end_of_the_errors() -> None:
    training = TrainingStatus(schedulable_time=START)
    excused = waiting.without_start_errors(training, StartErrors(cleared=LATER))
    assert (excused.schedulable_time, excused.bound_time) == (LATER, None)
    assert waiting.without_start_errors(training, LASTING) == training
