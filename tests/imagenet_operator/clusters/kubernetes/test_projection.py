"""What the caches keep of an object, and which changes of a pod may be debounced."""

from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.reconcile import observe

Manifest = dict[str, Any]
TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def pod(**spec: Any) -> Manifest:
    return {
        "metadata": {"name": "p", "managedFields": [{}], "annotations": {"a": "b"}},
        "spec": {
            "containers": [{"name": "main", "image": "i", "env": [{}], "resources": {}}],
            "volumes": [{}],
            "tolerations": TOLERATIONS,
            **spec,
        },
        "status": {"phase": "Pending", "startTime": "2026-01-02T03:04:05Z"},
    }


def test_of_a_job_that_is_too_large_neither_spec_nor_labels_are_kept() -> None:
    status = {"phase": "Running"}
    metadata = {"name": "j", "uid": "u", "generation": 2, "labels": {"a": "b"}}
    small = {"metadata": metadata, "spec": {"training": "x"}, "status": status}
    assert objects.project_job(small) == small
    size = objects.JOB_BYTES
    large = {**small, "spec": {"training": "x" * size, "runPolicy": {"suspend": True}}}
    kept = objects.project_job(large)
    assert kept.pop(objects.OMITTED_BYTES) > size
    assert kept == {
        "metadata": {"name": "j", "uid": "u", "generation": 2},
        "spec": {"runPolicy": {"suspend": True}},
        "status": status,
    }


def test_what_is_kept_of_a_pod_that_waits() -> None:
    gates = [{"name": "imagenet.dev/gang"}]
    assert objects.project_pod(pod(schedulingGates=gates)) == {
        "metadata": {"name": "p"},
        "spec": {
            "schedulingGates": gates,
            "tolerations": TOLERATIONS,
            "containers": [{"name": "main", "resources": {}}],
        },
        "status": {"phase": "Pending"},
    }


def test_what_the_explanation_of_a_wait_reads_is_kept() -> None:
    """With the projection of the pod, the waiting object is the same as with all of the pod."""
    failing = [{"name": "init", "image": "t", "state": {"waiting": {"reason": "ErrImagePull"}}}]
    works = [{"name": "init", "image": "t", "state": {"running": {"startedAt": None}}}]
    has_node = [{"type": "PodScheduled", "status": "True"}]
    scheduled = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    deleted = {"deletionTimestamp": "2026-01-02T03:05:05Z", "finalizers": ["example.com/a"]}
    for metadata, status in (
        ({}, {"initContainerStatuses": failing}),
        ({}, {"containerStatuses": failing}),
        ({}, {"conditions": scheduled}),
        ({}, {"conditions": has_node, "initContainerStatuses": works}),
        (deleted, {}),
    ):
        whole = pod()
        labels = {"training.imagenet.dev/attempt": "0"}
        whole["kind"] = "Pod"
        whole["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"}
        whole["metadata"] |= {"labels": labels, **metadata}
        whole["status"] |= status
        kept = {**objects.project_pod(whole), "kind": "Pod"}
        waiting = observe.waiting_objects([whole], {}, frozenset())
        assert waiting == observe.waiting_objects([kept], {}, frozenset())
        assert len(waiting) == 1


def test_what_init_containers_did_is_of_no_interest_once_the_others_run() -> None:
    running = pod()
    running["status"] = {"phase": "Running", "initContainerStatuses": [{"name": "i", "state": {}}]}
    assert objects.project_pod(running)["status"] == {"phase": "Running"}


def test_where_a_pod_could_go_is_of_no_interest_once_it_is_there() -> None:
    assert "tolerations" not in objects.project_pod(pod(nodeName="n"))["spec"]


def test_only_identity_and_state_are_kept_of_a_job_or_a_claim() -> None:
    large = {"template": {"spec": {"containers": [{"args": ["x" * 1_000_000]}]}}}
    kept = {"suspend": False, "completions": 8, "accessModes": ["ReadWriteOnce"]}
    metadata = {"name": "j", "labels": {"a": "b"}, "ownerReferences": [{"uid": "u"}]}
    whole = {"metadata": {**metadata, "annotations": {"a": "b"}}, "spec": {**large, **kept}}
    whole["status"] = {"active": 1, "conditions": [], "uncountedTerminatedPods": {}}
    assert objects.project_child(whole) == {
        "metadata": metadata,
        "spec": kept,
        "status": {"active": 1, "conditions": []},
    }


def test_the_taints_of_a_node_are_kept() -> None:
    taints = [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]
    node = {
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}},
        "spec": {"taints": taints, "podCIDR": "10.0.0.0/24"},
        "status": {"conditions": [], "allocatable": {"cpu": "8"}, "images": [{}]},
    }
    assert objects.project_node(node) == {
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "1"},
        "spec": {"taints": taints},
        "status": {"conditions": [], "allocatable": {"cpu": "8"}},
    }


def with_container(**state: Manifest) -> Manifest:
    return {"phase": "Running", "containerStatuses": [{"name": "main", "state": state}]}


def in_phase(phase: str | None, **changes: Manifest) -> Manifest:
    status = {} if phase is None else {"phase": phase}
    return {"metadata": {"name": "a"}, "spec": {"nodeName": "n1"}, "status": status, **changes}


@pytest.mark.parametrize(
    ("item", "waits"),
    [
        (in_phase("Pending"), True),
        (in_phase("Running"), True),
        (in_phase("Running", status=with_container(running={})), True),
        (in_phase("Running", status=with_container(terminated={"exitCode": 0})), True),
        (in_phase("Running", status=with_container(terminated={"exitCode": 137})), False),
        (in_phase("Succeeded"), False),
        (in_phase("Failed"), False),
        (in_phase("Unknown"), False),
        (in_phase(None), False),
        (in_phase("Running", metadata={"deletionTimestamp": "2026-01-02T03:04:05Z"}), False),
        (in_phase("Pending", spec={"schedulingGates": [{"name": "gang"}]}), False),
        (in_phase("Pending", spec={"schedulingGates": []}), True),
    ],
)
def test_only_pods_that_start_or_run_well_are_debounced(item: Manifest, waits: bool) -> None:
    assert objects.may_debounce(item) is waits
