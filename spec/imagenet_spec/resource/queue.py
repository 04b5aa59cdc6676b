"""Kueue's names: by these labels a job waits in a queue until there is quota for it.

A user labels the ImageNetJob. Its preparation Jobs get the same labels, and the pods of an attempt
are one group, which Kueue admits and evicts as a whole. The names are those of Kueue's API
v1beta2; see its pages "Run Jobs" and "Run a group of Pods".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAME: Final = "kueue.x-k8s.io/queue-name"
"""The label that names a LocalQueue."""

PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"
"""The label that names a WorkloadPriorityClass."""

GROUP: Final = "kueue.x-k8s.io/pod-group-name"
"""The label that all pods of a group share."""

GROUP_SIZE: Final = "kueue.x-k8s.io/pod-group-total-count"
"""The annotation with the number of pods of a group."""

RETRIABLE: Final = "kueue.x-k8s.io/retriable-in-group"
"""The annotation that says whether Kueue waits for pods in place of those that failed."""

JOB_UID: Final = "kueue.x-k8s.io/job-uid"
"""The label of the workload that Kueue makes of a Job."""

GATES: Final = frozenset({"kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"})
"""The scheduling gates by which Kueue holds a pod back."""

EVICTED: Final = "TerminationTarget"
"""The condition that a pod gets from Kueue before it is deleted."""

OWNED: Final = frozenset(
    {
        NAME,
        PRIORITY_CLASS,
        GROUP,
        GROUP_SIZE,
        RETRIABLE,
        "kueue.x-k8s.io/pod-group-fast-admission",
        "kueue.x-k8s.io/pod-group-serving",
    }
)
"""Labels and annotations that no template may have: they would split an attempt into several."""


def labels_of(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a job that its Jobs and pods get; none if it names no queue."""
    if not labels.get(NAME):
        return {}
    return {key: labels[key] for key in (NAME, PRIORITY_CLASS) if key in labels}
