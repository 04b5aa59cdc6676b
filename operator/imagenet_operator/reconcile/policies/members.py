"""Members: what the status records of an attempt's pods, when they end it, and who is charged.

An attempt starts with one entry for every pod that it needs. A terminal state stays, whatever
becomes of the pod. The record is written after all pods were created, so a pod that is absent has
vanished. It is never created again: two pods of one name could write to the same files.

Success is that every recorded worker exited with 0, whatever happens to other members later. A
program may save and exit with 0 at SIGTERM. So an exit with 0 after the eviction or the deletion
was requested is no success, unless a program of ours says that the last epoch is done. Ours leave
their result in a termination message. Workers that all exit with 0 without a result have not
trained. The label `labels.RESULT` marks the pods that must leave one; pods of an older operator
lack it.

No strategy survives a lost member: all others hang. So a member that fails or vanishes ends the
attempt. So does a scheduler, server or rendezvous (a helper) that exits while a worker runs. In
this order:

1. An eviction by Kueue, which takes back the quota of the attempt, is not charged to anybody.
2. A disruption (preemption, eviction, deletion, a vanished pod, a lost node) is not charged to the
   job. It excuses the other members: their exit codes prove nothing about the program.
3. A program that the container runtime cannot start is not charged, like other start errors.
4. Exit codes 2 and 3 of our programs mean bad arguments, and a wrong input or path. Another attempt
   would end in the same way, so the job fails without using backoffLimit. A user's own program may
   mean anything by them.
5. Exit code 4 of our workers means that the output volume lacks room. The job waits for room: only
   the first attempt of a row is charged.
6. An eviction for the pod's own use of local storage is charged, under its own reason: another
   attempt would write as much.
7. Any other failure is charged, and the job restarts.
8. A helper that exited with 0 before the last worker gets a grace period: at the end of training
   all members exit together, and the exit of a worker may be observed last.

A failure or a hang of other members while a node is out of reach is charged to that node, whichever
policy finds it. A node that dies silently turns NotReady after 40 seconds or more, and its members'
peers may fail before that. Then the charge moves to the cluster. A node is suspect until it reports
the end of a member. If a suspect node becomes unreachable within `REFUND_WINDOW`, the restart
counts as a disruption, even if the member's pod has vanished. A charge that would fail the job is
held until no node is suspect or the window is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic.alias_generators import to_camel

from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.policies import job_status, waiting
from imagenet_operator.reconcile.types import Charge, End, Manifest, MemberPod, Phase
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.names import EXIT_PERMANENT, EXIT_USAGE, EXIT_VOLUME_FULL
from imagenet_spec.resource import ImageNetJob, member_groups
from imagenet_spec.resource.status import (
    AttemptOutcome,
    MemberStatus,
    ReplicaStatus,
    TrainingStatus,
)

TERMINAL: Final = frozenset({"Succeeded", "Failed", "Unknown"})
"""Phases that a member does not leave."""

EVICTED: Final = "EvictedByKueue"
"""The reason of an attempt whose quota Kueue has taken back."""

FULL_VOLUME: Final = "VolumeFull"
"""The reason of an end for lack of room on the output volume."""

NO_ROOM: Final = "OutOf"
"""How the kubelet begins its reason where a bound pod did not fit: OutOfcpu, OutOfpods, …"""

REJECTIONS: Final = frozenset(
    {
        "NodeAffinity",  # the node changed between binding and start
        "NodeShutdown",  # the node goes down
        "SMTAlignmentError",  # the CPU manager has no whole cores left
        "TopologyAffinityError",  # the topology manager cannot align the devices
        "UnexpectedAdmissionError",  # a device plugin was restarting, or fails
    }
)
"""The reasons with which a kubelet rejects a bound pod, beside those that begin with `NO_ROOM`."""

_NEVER_STARTED: Final = frozenset({"StartError", "ContainerCannotRun"})
"""The reasons of containerd and Docker for a container whose program cannot be executed."""

_SIGKILLED: Final = 128 + 9
_KILLED: Final = frozenset({None, 0, _SIGKILLED, 128 + 15})
"""How a container ends that is stopped from outside: without a code, with 0 after it has saved, by
SIGKILL, by SIGTERM."""

STORAGE_EXCEEDED: Final = "StorageLimitExceeded"
"""The reason of a pod that was evicted for its own use of storage, and of the attempt's end."""

REFUND_WINDOW: Final = timedelta(minutes=5)
"""The time from the end of an attempt in which the loss of a node explains it."""

OOM_KILLED: Final = "OOMKilled"
"""The kubelet's reason of a program that the kernel killed for using more memory than its limit."""

_PREPARATION = "spec.dataset.preprocessing.template"
_LIMIT: Final = {
    "fetch": _PREPARATION,
    "index": _PREPARATION,
    "pack": _PREPARATION,
    "seal": _PREPARATION,
    "server": "spec.training.strategy.parameterServer.servers.template",
    "worker": "spec.training.workers.template",
}
_OTHERWISE: Final = {
    "server": ", or spec.training.strategy.parameterServer.servers.replicas",
    "worker": ", or lower spec.training.batchSize, of which the reader holds several, or "
    "dataThreads, each a decoder with its own memory",
}
_ACCUMULATION: Final = "extraArgs: [--macrobatch-size, …] adds up the gradients of smaller batches"


def planned(manifests: Iterable[Manifest]) -> tuple[MemberStatus, ...]:
    """Return the record of an attempt that starts: the pods among its manifests, none seen yet."""
    return tuple(
        MemberStatus(
            name=item["metadata"]["name"], role=item["metadata"]["labels"][labels.JOB_ROLE]
        )
        for item in manifests
        if item["kind"] == "Pod"
    )


def by_name(members: Iterable[MemberPod]) -> dict[str, MemberPod]:
    """Return the pods that are seen, by name."""
    return {member.name: member for member in members}


def recorded(
    former: Sequence[MemberStatus], seen: Mapping[str, MemberPod], now: datetime
) -> tuple[MemberStatus, ...]:
    """Return the record after this reconcile; `now` is the time of an end without a report."""
    pods = seen.values()
    is_done = any(pod.leaves_result for pod in pods) and (
        any(job_status.result_in(pod.message) for pod in pods if pod.role == "worker")
        or any(map(job_status.result_of, former))
    )
    return tuple(
        _recorded(member, seen.get(member.name), now, is_done=is_done) for member in former
    )


def _recorded(
    former: MemberStatus, pod: MemberPod | None, now: datetime, *, is_done: bool
) -> MemberStatus:
    if former.phase in TERMINAL:
        return former
    if pod is None:
        return _ended(former, "Vanished", now)
    if not member_groups.is_same(former.uid, pod.uid):
        return _ended(former, "Replaced", now)
    is_running = former.phase == "Running" and pod.phase is Phase.RUNNING and not pod.gone
    if is_running and member_groups.is_lean(former):
        return former
    changes: dict[str, Any] = {"uid": former.uid or pod.uid}
    whereabouts = {"node": pod.node, "started_at": pod.started_at or former.started_at}
    if pod.phase in (Phase.SUCCEEDED, Phase.FAILED):
        is_success = pod.phase is Phase.SUCCEEDED
        is_stopped = is_success and pod.cut_short and not is_done
        changes |= whereabouts | {
            "phase": "Failed" if is_stopped else pod.phase.value,
            "exit_code": pod.exit_code,
            "reason": pod.disrupted or ("Deleted" if is_stopped else pod.reason),
            "message": member_groups.tail(pod.message or "", member_groups.WORDS_MAXIMUM) or None,
            "finished_at": pod.finished_at or now,
        }
    elif pod.gone:
        changes |= {"phase": "Unknown", "reason": pod.disrupted or "NodeLost", "finished_at": now}
    elif pod.phase is Phase.RUNNING:
        changes |= whereabouts | {"phase": "Running"}
    return former.model_copy(update=changes)


def _ended(former: MemberStatus, reason: str, now: datetime) -> MemberStatus:
    return former.model_copy(update={"phase": "Unknown", "reason": reason, "finished_at": now})


def replica_statuses(members: Sequence[MemberStatus]) -> dict[str, ReplicaStatus]:
    """Return role → how many are active (pending or running), succeeded, failed (or vanished)."""
    phases: dict[str, list[str]] = {}
    for member in members:
        phases.setdefault(member.role, []).append(member.phase)
    return {
        role: ReplicaStatus(
            active=sum(phase in ("Pending", "Running") for phase in found),
            succeeded=found.count("Succeeded"),
            failed=found.count("Failed") + found.count("Unknown"),
        )
        for role, found in phases.items()
    }


def without_active(statuses: Mapping[str, ReplicaStatus]) -> dict[str, ReplicaStatus]:
    """Return the counts of a job that has ended: a pod that still runs is not active."""
    return {role: found.model_copy(update={"active": 0}) for role, found in statuses.items()}


def succeeded(members: Sequence[MemberStatus]) -> bool:
    """Return whether every worker among the recorded members succeeded."""
    workers = [member for member in members if member.role == "worker"]
    return bool(workers) and all(worker.phase == "Succeeded" for worker in workers)


def no_result(training: TrainingStatus) -> End | None:
    """Return why an attempt whose workers all succeeded has failed, if it has."""
    workers = [member for member in training.members if member.role == "worker"]
    # Without an exit code, there was no termination message to read.
    is_known = all(worker.exit_code is not None for worker in workers)
    if not training.expects_result or not is_known or any(map(job_status.result_of, workers)):
        return None
    message = (
        "all workers exited with 0, but none left a result; the image must run imagenet-train to"
        " its end, or spec.training.workers.template must set the command of your own program"
    )
    return End("NoResult", message, Charge.PERMANENT)


def verdict(
    members: Sequence[MemberStatus],
    seen: Mapping[str, MemberPod],
    grace_period: timedelta,
    now: datetime,
    *,
    own_program: bool = False,
) -> End | None:
    """Return why the attempt has to end, if it has to.

    A helper that exited with 0 may precede the last worker by `grace_period`.
    """
    for member in members:
        pod = seen.get(member.name)
        if pod is not None and pod.evicted is not None and member.phase != "Succeeded":
            return End(EVICTED, f"evicted by Kueue: {pod.evicted}", Charge.QUEUE)
    for member in members:
        why = _disruption(member, seen.get(member.name))
        if why is not None and _is_rejected(member):
            node = f" of {member.node}" if member.node else ""
            said = f": {' '.join(member.message.split())}" if member.message else ""
            then = "; the next attempt prefers other nodes" if member.node else ""
            message = f"the kubelet{node} rejected {member.name}: {why}{said}{then}"
            return End(why, message, Charge.DISRUPTION)
        if why is not None:
            return End(why, f"{member.name} was disrupted: {why}", Charge.DISRUPTION)
    failed = sorted(
        (member for member in members if member.phase == "Failed"),
        key=lambda item: str(item.finished_at),
    )
    if failed:
        return _failure(failed, own_program=own_program)
    early_helper = _early_helper(members)
    if early_helper is not None and now >= _leave(early_helper, grace_period):
        message = f"{early_helper.name} exited with 0 while a worker still runs"
        return End("MemberEndedEarly", message, Charge.FAILURE)
    return None


def _disruption(member: MemberStatus, pod: MemberPod | None) -> str | None:
    """Why a member counts as disrupted; a member that succeeded never does."""
    if member.phase == "Succeeded":
        return None
    if member.phase == "Unknown":
        return member.reason
    if pod is None:
        return None
    if pod.disrupted is not None:
        return pod.disrupted
    if pod.terminating and (member.phase != "Failed" or member.exit_code in _KILLED):
        return "Deleted"
    return None


def _is_rejected(member: MemberStatus) -> bool:
    """Whether a kubelet rejected a pod, so that no container of it was ever started."""
    reason = member.reason or ""
    # Under pressure, a node rejects a pod with the reason of an eviction.
    is_rejection = (
        reason in REJECTIONS
        or reason.startswith(NO_ROOM)
        or (member.message or "").startswith("Pod was rejected")
    )
    return member.phase == "Failed" and member.started_at is None and is_rejection


def _failure(failed: Sequence[MemberStatus], *, own_program: bool) -> End:
    """The end of an attempt by members that failed, the first of them first."""
    for member in failed:
        if member.reason in _NEVER_STARTED:
            why = f"the container cannot be started: {member.message or 'no message'}"
            message = f"{member.name}: {why}; correct the template"
            return End(waiting.NOT_STARTED, message, Charge.START_ERROR)
    for member in failed:
        if member.reason == STORAGE_EXCEEDED:
            message = f"{member.name} was evicted: {member.message}"
            return End(STORAGE_EXCEEDED, message, Charge.FAILURE)
    ours = [member for member in failed if not (own_program and member.role == "worker")]
    for member in ours:
        if member.exit_code in (EXIT_USAGE, EXIT_PERMANENT):
            return End("PermanentFailure", _termination_message(member), Charge.PERMANENT)
    for member in ours:
        if member.exit_code == EXIT_VOLUME_FULL:
            message = f"waiting for room on the output volume: {_termination_message(member)}"
            return End(FULL_VOLUME, message, Charge.FULL_VOLUME)
    return End("MemberFailed", _termination_message(failed[0]), Charge.FAILURE)


def _termination_message(member: MemberStatus) -> str:
    if member.exit_code == _SIGKILLED and member.reason != OOM_KILLED:
        # It had no time to say anything: the kubelet took the message from its log.
        return (
            f"{member.name} was killed by SIGKILL (exit code {_SIGKILLED}), and not for its own "
            "memory limit; check the memory of its node, its probes, and what it sends to itself"
        )
    code = "without an exit code" if member.exit_code is None else f"with {member.exit_code}"
    # The last line of a log is the exception; its causes are above it.
    words = (member.message or "").strip().splitlines()[-1:]
    return ": ".join([f"{member.name} exited {code}", *words])


def _early_helper(members: Sequence[MemberStatus]) -> MemberStatus | None:
    """The first helper that ended well while a worker has not ended."""
    if all(member.phase in TERMINAL for member in members if member.role == "worker"):
        return None
    left = [member for member in members if member.role != "worker" and member.phase == "Succeeded"]
    return min(left, key=lambda member: str(member.finished_at), default=None)


def _leave(early_helper: MemberStatus, grace_period: timedelta) -> datetime:
    assert early_helper.finished_at is not None  # recorded with every terminal state
    return early_helper.finished_at + grace_period


def helper_deadline(members: Sequence[MemberStatus], grace_period: timedelta) -> datetime | None:
    """Return when the grace period of a helper that exited before the last worker ends."""
    early_helper = _early_helper(members)
    return None if early_helper is None else _leave(early_helper, grace_period)


def excused(end: End, members: Sequence[MemberStatus], seen: Mapping[str, MemberPod]) -> End:
    """Return an end, charged to the cluster if a member's node cannot be reached."""
    if end.charge not in (Charge.FAILURE, Charge.PERMANENT):
        return end
    for member in members:
        pod = seen.get(member.name)
        if pod is not None and pod.out_of_reach and member.phase not in TERMINAL:
            message = f"{member.name} is on a node that cannot be reached; {end.message}"
            return End("NodeLost", message, Charge.DISRUPTION)
    return end


def rejecting_nodes(members: Sequence[MemberStatus]) -> list[str]:
    """Return the nodes whose kubelets rejected members of an attempt."""
    return [item.node for item in members if item.node is not None and _is_rejected(item)]


def suspect_nodes(
    members: Sequence[MemberStatus], seen: Mapping[str, MemberPod]
) -> dict[str, MemberPod]:
    """Return the nodes whose loss may have ended an attempt, each with one of its pods."""
    alive = _alive(members, seen)
    unfinished = [seen.get(member.name) for member in members if member.phase not in TERMINAL]
    return {
        pod.node: pod
        for pod in unfinished
        if pod is not None and pod.node is not None and pod.node not in alive
    }


def lost_member(
    members: Sequence[MemberStatus],
    seen: Mapping[str, MemberPod],
    unreachable_nodes: Collection[str],
) -> str | None:
    """Return a member that had not ended and is on a suspect node that cannot be reached."""
    alive = _alive(members, seen)
    for member in members:
        pod = seen.get(member.name)
        node = member.node if pod is None else pod.node
        if member.phase not in TERMINAL and node in unreachable_nodes and node not in alive:
            return member.name
    return None


def _alive(members: Sequence[MemberStatus], seen: Mapping[str, MemberPod]) -> set[str | None]:
    """Return the nodes that have reported the end of a member since the first failure."""
    failures = [item.finished_at for item in members if item.phase == "Failed" and item.finished_at]
    first = min(failures, default=None)
    ended = [
        (item.node, item.finished_at) for item in members if item.phase in ("Succeeded", "Failed")
    ]
    ended += [
        (pod.node, pod.finished_at)
        for pod in seen.values()
        if pod.phase in (Phase.SUCCEEDED, Phase.FAILED) and pod.disrupted is None
    ]
    return {node for node, time in ended if first is None or time is None or time >= first}


def is_charge_final(outcome: AttemptOutcome, now: datetime) -> bool:
    """Whether a node that is lost now has nothing to do with the end of the attempt."""
    return now >= outcome.time + REFUND_WINDOW


def exceeds_storage(status: Manifest) -> bool:
    """Whether the kubelet evicted a pod for its own use of storage.

    Clusters before Kubernetes 1.31 may not set DisruptionTarget, so the kubelet's words count too.
    """
    conditions = status.get("conditions") or ()
    words = str(status.get("message") or "")
    return (
        status.get("reason") == "Evicted"
        and not any(item["type"] == "DisruptionTarget" for item in conditions)
        and not words.startswith(("The node ", "Pod was rejected"))
        and "exceed" in words
    )


def storage_remedy(status: Manifest, role: str) -> str:
    """Return the kubelet's words about such a pod, and what to change."""
    words = " ".join(str(status["message"]).split()).rstrip(".")
    return (
        f"{words}; write less outside the volumes of the dataset and the output, or raise the "
        f"limit of ephemeral-storage or the sizeLimit of the emptyDir in {template_of(role)}"
    )


def memory_remedy(role: str, job: ImageNetJob | None = None) -> str:
    """Return a sentence about a pod that was killed for its memory."""
    place = template_of(role)
    instead = _OTHERWISE.get(role, "")
    if role == "worker" and job is not None:
        instead += f" ({_ACCUMULATION})"
        training = job.spec.training
        framework = FRAMEWORKS[training.framework]
        option, switch = framework.memory_option, ""
        if framework.memory_variable is not None:
            switch = f"{framework.memory_variable} in its env"
        elif option is not None and not getattr(training, option):
            switch = f"spec.training.{to_camel(option)}: true"
        instead += f"; {switch} may save some more, but is slower" if switch else ""
    return (
        f"used more memory than its limit ({OOM_KILLED}); raise resources.limits.memory in {place}"
        f"{instead}"
    )


def template_of(role: str) -> str:
    """Return the path of the template with the resources of a role."""
    return _LIMIT.get(role, "the template of its role")
