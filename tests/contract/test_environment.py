"""The environment that the operator sets is the one that the workloads read."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.manifests import preview
from imagenet_spec.names import (
    IMAGENET_CREDENTIALS,
    IMAGENET_HOROVOD_HOSTS,
    IMAGENET_START_CREDENTIALS,
    IMAGENET_TRACKING,
    IMAGENET_TRACKING_CREDENTIALS,
    ROLES,
)
from imagenet_spec.resource.dataset_status import DatasetStatus
from imagenet_workloads import environment as workloads
from imagenet_workloads.prepare.index import IndexResult
from imagenet_workloads.rendezvous import horovod_server
from imagenet_workloads.rendezvous.ddp import Process
from imagenet_workloads.rendezvous.horovod import HorovodSlot
from support.job_table import JOBS, KEY, UID
from support.pod_subset import REFERENCE

Manifest = dict[str, Any]

PS_LITE = {
    "DMLC_ROLE",
    "DMLC_PS_ROOT_URI",
    "DMLC_PS_ROOT_PORT",
    "DMLC_NUM_WORKER",
    "DMLC_NUM_SERVER",
    "DMLC_NODE_HOST",
    "PORT",
}
"""Read by MXNet's own code."""

HOROVOD = {
    "HOROVOD_CONTROLLER",
    "HOROVOD_CPU_OPERATIONS",
    "HOROVOD_CYCLE_TIME",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR",
    "HOROVOD_GLOO_RENDEZVOUS_PORT",
    "HOROVOD_GLOO_TIMEOUT_SECONDS",
    "HOROVOD_IDLE_CYCLE_TIME",
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
    "HOROVOD_HOSTNAME",
    *(f"HOROVOD_{scope}{what}" for scope in ("", "LOCAL_", "CROSS_") for what in ("RANK", "SIZE")),
}
"""Read by Horovod's own code."""

TORCHRUN = {"RANK", "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE"} | {
    "MASTER_ADDR",
    "MASTER_PORT",
}
"""What torchrun sets, and PyTorch's own code reads."""

OF_CLIENTS = {
    IMAGENET_CREDENTIALS,
    IMAGENET_START_CREDENTIALS,
    IMAGENET_TRACKING_CREDENTIALS,
}
"""Read by the clients of servers and buckets."""

OF_PID_1 = {IMAGENET_TRACKING}
"""Read by what starts the process beside rank 0."""

FOR_LIBRARIES = {"TF_CONFIG", "HOME", "TMPDIR", "OMP_NUM_THREADS"}

FOR_USERS = {"IMAGENET_CACHE", "IMAGENET_DATASET", "IMAGENET_RESULTS"}
"""Read by programs of one's own, and by the arguments of ours."""


class Recorded(dict[str, str]):
    """A mapping that knows what was asked of it."""

    def __init__(self, variables: dict[str, str]) -> None:
        super().__init__(variables)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


def containers(name: str) -> list[Manifest]:
    built = preview.everything(JOBS[name], status=JOBS[name].status.dataset, attempt=3)
    templates = [item["spec"]["template"] for item in built if item["kind"] == "Job"]
    pods = [*templates, *(item for item in built if item["kind"] == "Pod")]
    return [pod["spec"]["containers"][0] for pod in pods]


def variables(container: Manifest) -> dict[str, str]:
    """Return a container's environment as its program sees it."""
    found: dict[str, str] = {}
    for item in container["env"]:
        text = item.get("value", f"<{item['name']}>")
        found[item["name"]] = REFERENCE.sub(lambda match: found[match[1]], text)
    return found


@pytest.mark.parametrize("name", JOBS)
def test_every_variable_is_read_by_somebody(name: str) -> None:
    for container in containers(name):
        recorded = Recorded(variables(container))
        workloads.Environment.from_mapping(recorded)
        known = PS_LITE | HOROVOD | TORCHRUN | FOR_LIBRARIES | FOR_USERS | {IMAGENET_HOROVOD_HOSTS}
        assert recorded.keys() <= recorded.asked | known | OF_CLIENTS | OF_PID_1


def test_every_variable_that_is_read_is_set_on_some_pod() -> None:
    recorded = Recorded({})
    workloads.Environment.from_mapping(recorded)
    # Kubernetes itself sets the index of a completion.
    wanted = recorded.asked - {"JOB_COMPLETION_INDEX"}
    jobs = ("defaults", "all of preprocessing", "one node")
    set_by_us = {name for job in jobs for pod in containers(job) for name in variables(pod)}
    assert wanted <= set_by_us


def test_a_worker_reads_what_the_operator_meant() -> None:
    worker = containers("output on one node")[-1]
    read = workloads.Environment.from_mapping(variables(worker))
    expected = {
        "pod_name": "<POD_NAME>",
        "pod_ip": "<POD_IP>",
        "job": "digits",
        "namespace": "vision",
        "job_uid": UID,
        "role": "worker",
        "metrics_port": 9090,
        "termination_log": Path("/dev/termination-log"),
        "source": None,
        "data": Path("/data"),
        "output": Path("/output"),
        "scratch": Path("/scratch"),
        "attempt": 3,
        "completion_index": None,
    }
    actual = dataclasses.asdict(read)
    assert {name: actual[name] for name in expected} == expected
    assert len(read.spec_hash) == 64


def test_results_go_beside_the_dataset_where_no_output_is_named() -> None:
    read = workloads.Environment.from_mapping(variables(containers("defaults")[-1]))
    assert read.output == read.data == Path("/data")


def test_pods_of_every_role_are_built() -> None:
    built = {
        variables(container)["IMAGENET_ROLE"]
        for name in ("defaults", "horovod", "fetched", "published", "uploaded")
        for container in containers(name)
    }
    assert built | {"rendezvous"} == set(ROLES)


def test_the_rendezvous_reads_every_worker_and_each_worker_its_place() -> None:
    rendezvous, *workers = containers("horovod with slots")[-3:]
    hosts = horovod_server.read_hosts(variables(rendezvous))
    assert hosts == [("digits-r3-worker-0", 4), ("digits-r3-worker-1", 4)]
    slots = [HorovodSlot.from_mapping(variables(worker)) for worker in workers]
    assert [(slot.rank, slot.size) for slot in slots if slot] == [(0, 8), (4, 8)]


def test_each_worker_of_pytorch_reads_its_place() -> None:
    workers = containers("distributed data parallel with gpus")[-2:]
    first, second = [Process.from_mapping(variables(worker)) for worker in workers]
    assert first == Process(0, 8, 0, 4, "digits-r3-worker-0.digits-r3", 9092)
    assert second == dataclasses.replace(first, rank=4)


def test_what_index_reports_is_what_the_status_takes() -> None:
    result = IndexResult(
        key=KEY,
        classes=9,
        train=1300,
        validation=200,
        shards=4,
        dropped_classes=1,
        sealed=False,
    )
    report = result.to_document()
    status = DatasetStatus.model_validate(report).to_manifest()
    assert status == {**report, "skippedImages": 0}, "seal reports the number of skipped images"
