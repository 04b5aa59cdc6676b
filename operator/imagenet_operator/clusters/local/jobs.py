"""The local Job controller: creates the pods of batch/v1 Jobs.

`cluster` has one `JobController` for each Job, and calls it after every change of its pods. It
supports the fields that this project's Jobs use: completions, parallelism, completionMode,
backoffLimit, backoffLimitPerIndex with maxFailedIndexes, podFailurePolicy, activeDeadlineSeconds
and suspend.
"""

import copy
import math
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from imagenet_operator.clusters.local.objects import is_ending, is_terminal, timestamp
from imagenet_spec.names import JOB_COMPLETION_INDEX
from imagenet_spec.resource import Manifest

INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
_FIRST_DELAY = timedelta(seconds=1)
"""The first back-off delay. Kubernetes starts with 10 s, but here a user waits."""
_LONGEST_DELAY = timedelta(minutes=6)


@dataclass(frozen=True)
class Step:
    """The changes that a Job needs now, and when to look again without a change of a pod."""

    create: tuple[Manifest, ...] = ()
    delete: tuple[Manifest, ...] = ()
    again_at: datetime | None = None


class JobController:
    """Controls one Job, of which at most `slots` pods run at the same time."""

    def __init__(self, job: Manifest, slots: int) -> None:
        self._job = job
        self._slots = slots
        self._counted: set[str] = set()
        self._dismissed: set[str] = set()
        self._succeeded: list[int] = []
        self._failures = 0
        self._charged: Counter[int] = Counter()
        self._last_failures: dict[int, datetime] = {}
        self._failure: tuple[str, str] | None = None

    def step(self, pods: Sequence[Manifest], now: datetime) -> Step:
        """Count the finished pods, update the Job's status, and return the changes it needs."""
        status = self._job["status"]
        if {"Complete", "Failed"} & {item["type"] for item in status.get("conditions", ())}:
            return Step()
        suspended = bool(self._spec.get("suspend"))
        if suspended:
            status.pop("startTime", None)
        else:
            status.setdefault("startTime", timestamp(now))
        known = any(item["type"] == "Suspended" for item in status.get("conditions", ()))
        if suspended or known:
            reason = "JobSuspended" if suspended else "JobResumed"
            self._set_condition("Suspended", suspended, reason, "", now)
        for pod in pods:
            self._count(pod, now)
        self._judge(now)
        living = [pod for pod in pods if not is_terminal(pod)]
        active = [pod for pod in living if not is_ending(pod)]
        wanted = 0
        if self._failure is None and not suspended:
            remaining = self._completions - len(self._succeeded)
            parallelism = int(self._spec.get("parallelism", 1))
            wanted = max(0, min(parallelism, self._slots, remaining))
        surplus = active[wanted:]
        self._dismissed.update(pod["metadata"]["uid"] for pod in surplus)
        due = {index: self._due(index) for index in self._free_indexes(living)}
        ready = [index for index, time in due.items() if time <= now]
        create = [self._pod(index) for index in ready[: max(0, wanted - len(living))]]
        status.update(
            active=len(active) - len(surplus) + len(create),
            succeeded=len(self._succeeded),
            failed=self._failures,
            terminating=len(living) - len(active) + len(surplus),
        )
        if self._is_indexed:
            status["completedIndexes"] = ranges(sorted(self._succeeded))
        if not living and self._failure is not None:
            self._set_condition("Failed", True, *self._failure, now)
        elif not living and len(self._succeeded) >= self._completions:
            self._set_condition("Complete", True, "CompletionsReached", "", now)
            status["completionTime"] = timestamp(now)
        times = [time for time in due.values() if time > now]
        if (deadline := self._deadline) is not None:
            times.append(deadline)
        return Step(tuple(create), tuple(surplus), min(times, default=None))

    @property
    def _spec(self) -> Manifest:
        spec: Manifest = self._job["spec"]
        return spec

    @property
    def _is_indexed(self) -> bool:
        return bool(self._spec.get("completionMode") == "Indexed")

    @property
    def _deadline(self) -> datetime | None:
        limit, start = self._spec.get("activeDeadlineSeconds"), self._job["status"].get("startTime")
        return datetime.fromisoformat(start) + timedelta(seconds=limit) if limit and start else None

    @property
    def _completions(self) -> int:
        return int(self._spec.get("completions", 1))

    def _count(self, pod: Manifest, now: datetime) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._counted or not is_terminal(pod):
            return
        self._counted.add(uid)
        if pod["status"]["phase"] == "Succeeded":
            self._succeeded.append(self._index(pod))
            return
        if uid in self._dismissed:
            return
        self._failures += 1
        account = self._account(self._index(pod))
        self._last_failures[account] = now
        action, rule = failure_action(self._spec.get("podFailurePolicy", {}), pod)
        if action == "FailJob":
            name, code = pod["metadata"]["name"], exit_code(pod)
            self._failure = (
                "PodFailurePolicy",
                f"Pod {name} failed with exit code {code} matching FailJob rule at index {rule}",
            )
        elif action == "Count":
            self._charged[account] += 1

    def _judge(self, now: datetime) -> None:
        if self._failure is not None:
            return
        deadline = self._deadline
        most = self._spec.get("backoffLimitPerIndex", math.inf)
        failed_indexes = sorted(index for index, times in self._charged.items() if times > most)
        if failed_indexes:
            self._job["status"]["failedIndexes"] = ranges(failed_indexes)
        if len(failed_indexes) > self._spec.get("maxFailedIndexes", math.inf):
            self._failure = (
                "MaxFailedIndexesExceeded",
                "Job has exceeded the specified maximal number of failed indexes",
            )
        elif self._charged.total() > self._spec.get("backoffLimit", 6):
            self._failure = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        elif deadline is not None and now >= deadline:
            self._failure = (
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
            )

    def _account(self, index: int) -> int:
        """Return the account of an index's failures: its own, or the one that all indexes share."""
        return index if "backoffLimitPerIndex" in self._spec else 0

    def _due(self, index: int) -> datetime:
        """Return the earliest time for another pod of an index, after the failures so far."""
        account = self._account(index)
        if account not in self._last_failures:
            return datetime.min.replace(tzinfo=UTC)
        doublings: int = min(max(self._charged[account] - 1, 0), 20)
        delay: timedelta = _FIRST_DELAY * 2**doublings
        return self._last_failures[account] + min(delay, _LONGEST_DELAY)

    def _free_indexes(self, living: Sequence[Manifest]) -> list[int]:
        """Return the completion indexes without a pod; any numbers if the Job is not Indexed."""
        if not self._is_indexed:
            return list(range(self._completions - len(self._succeeded)))
        busy = {self._index(pod) for pod in living} | set(self._succeeded)
        return [index for index in range(self._completions) if index not in busy]

    def _index(self, pod: Manifest) -> int:
        annotations = pod["metadata"].get("annotations", {})
        return int(annotations.get(INDEX_ANNOTATION, len(self._succeeded)))

    def _set_condition(
        self, kind: str, holds: bool, reason: str, message: str, now: datetime
    ) -> None:
        conditions = self._job["status"].setdefault("conditions", [])
        value = "True" if holds else "False"
        former = next((item for item in conditions if item["type"] == kind), None)
        if former is not None and former["status"] == value:
            return
        if former is not None:
            conditions.remove(former)
        conditions.append(
            {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": message,
                "lastTransitionTime": timestamp(now),
            }
        )

    def _pod(self, index: int) -> Manifest:
        """Return a pod of the Job's template, with the controller's names and labels."""
        metadata = self._job["metadata"]
        template = copy.deepcopy(self._spec["template"])
        stem = f"{metadata['name']}-{index}" if self._is_indexed else metadata["name"]
        own = template.setdefault("metadata", {})
        own["name"] = f"{stem}-{uuid.uuid4().hex[:5]}"
        own["ownerReferences"] = [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": metadata["name"],
                "uid": metadata["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        own.setdefault("labels", {}).update(
            {
                "batch.kubernetes.io/job-name": metadata["name"],
                "batch.kubernetes.io/controller-uid": metadata["uid"],
            }
        )
        if self._is_indexed:
            own["labels"][INDEX_ANNOTATION] = str(index)
            own.setdefault("annotations", {})[INDEX_ANNOTATION] = str(index)
            template["spec"]["hostname"] = stem
            reference = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX_ANNOTATION}']"}}
            for container in template["spec"]["containers"]:
                container.setdefault("env", []).append(
                    {"name": JOB_COMPLETION_INDEX, "valueFrom": reference}
                )
        return {"apiVersion": "v1", "kind": "Pod", **template}


def exit_code(pod: Manifest) -> int | None:
    """Return the exit code of a local pod, which has one container."""
    for container in pod["status"].get("containerStatuses", ()):
        code = container["state"].get("terminated", {}).get("exitCode")
        if code is not None:
            return int(code)
    return None


def failure_action(policy: Manifest, pod: Manifest) -> tuple[str, int | None]:
    """Apply a podFailurePolicy to a failed pod; return the action and the index of its rule.

    The action is FailJob, Ignore or Count; it is Count if no rule matches.
    """
    for index, rule in enumerate(policy.get("rules", ())):
        if _matches(rule, pod):
            return rule["action"], index
    return "Count", None


def _matches(rule: Manifest, pod: Manifest) -> bool:
    if requirement := rule.get("onExitCodes"):
        code = exit_code(pod)
        if code in (None, 0):
            return False
        return bool((code in requirement["values"]) == (requirement["operator"] == "In"))
    conditions = {(item["type"], item["status"]) for item in pod["status"].get("conditions", ())}
    return any(
        (pattern["type"], pattern.get("status", "True")) in conditions
        for pattern in rule.get("onPodConditions", ())
    )


def ranges(numbers: Sequence[int]) -> str:
    """Format ascending numbers as Kubernetes formats completed indexes.

    Example:
        >>> ranges([0, 1, 2, 5])
        '0-2,5'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
