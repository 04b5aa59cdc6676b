"""Horovod's processes get what `horovodrun` would give them, and one rendezvous to meet at."""

from typing import Any

import pytest

from imagenet_operator.manifests.settings import Settings
from imagenet_spec.frameworks.descriptor import Images
from support.job_table import JOBS, manifest, members, read, variables

Manifest = dict[str, Any]


def container(pod: Manifest) -> Manifest:
    found: Manifest = pod["spec"]["containers"][0]
    return found


def literals(pod: Manifest) -> dict[str, str]:
    return variables(container(pod))


def horovods(pod: Manifest) -> dict[str, str]:
    return {name: value for name, value in literals(pod).items() if name.startswith("HOROVOD_")}


def test_each_worker_is_told_its_place() -> None:
    _, first, second = members(JOBS["horovod with slots"], 3)
    common = {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "digits-r3-rendezvous-0.digits-r3",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "9091",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "1500",
        "HOROVOD_IDLE_CYCLE_TIME": "100",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "1500",
        "HOROVOD_SIZE": "8",
        "HOROVOD_LOCAL_SIZE": "4",
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_CROSS_SIZE": "2",
    }
    assert horovods(first) == {
        **common,
        "HOROVOD_HOSTNAME": "digits-r3-worker-0",
        "HOROVOD_RANK": "0",
        "HOROVOD_CROSS_RANK": "0",
    }
    assert horovods(second) == {
        **common,
        "HOROVOD_HOSTNAME": "digits-r3-worker-1",
        "HOROVOD_RANK": "4",
        "HOROVOD_CROSS_RANK": "1",
    }


def cycles(pod: Manifest) -> Manifest:
    return {name: value for name, value in horovods(pod).items() if "CYCLE" in name}


def test_gpus_keep_horovods_own_cycle_time() -> None:
    _, worker, *_ = members(JOBS["horovod with gpus"])
    assert cycles(worker) == {}


def test_a_horovod_that_gradients_do_not_wake_looks_for_them_less_often() -> None:
    """Which may be the one in a user's own image."""
    ours = manifest(training={"strategy": {"horovod": {}}})
    theirs = manifest(training={"strategy": {"horovod": {}}, "image": "example.com/mine:1"})
    _, worker, *_ = members(read(ours))
    assert cycles(worker) == {"HOROVOD_IDLE_CYCLE_TIME": "100"}
    _, worker, *_ = members(read(theirs))
    assert cycles(worker) == {"HOROVOD_IDLE_CYCLE_TIME": "100", "HOROVOD_CYCLE_TIME": "10"}


def test_a_template_has_the_last_word_on_tuning() -> None:
    own = {"name": "main", "env": [{"name": "HOROVOD_CYCLE_TIME", "value": "20"}]}
    document = manifest(
        training={
            "strategy": {"horovod": {}},
            "workers": {"replicas": 2, "template": {"spec": {"containers": [own]}}},
        }
    )
    _, *workers = members(read(document))
    assert [horovods(worker)["HOROVOD_CYCLE_TIME"] for worker in workers] == ["20", "20"]


@pytest.mark.parametrize("name", [name for name in JOBS if name.startswith("horovod")])
def test_the_rendezvous_knows_every_worker_by_its_own_name(name: str) -> None:
    rendezvous, *workers = members(JOBS[name], 1)
    hosts = literals(rendezvous)["IMAGENET_HOROVOD_HOSTS"].split(",")
    told = [
        f"{horovods(pod)['HOROVOD_HOSTNAME']}:{horovods(pod)['HOROVOD_LOCAL_SIZE']}"
        for pod in workers
    ]
    assert hosts == told
    assert [host.partition(":")[0] for host in hosts] == [
        pod["metadata"]["name"] for pod in workers
    ]
    assert rendezvous["metadata"]["name"] == "digits-r1-rendezvous-0"
    service = rendezvous["spec"]["subdomain"]
    for pod in workers:
        address = f"{rendezvous['metadata']['name']}.{service}"
        assert horovods(pod)["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == address


@pytest.mark.parametrize(
    ("name", "slots", "options"),
    [
        ("horovod", "1", ["--kv-store", "horovod"]),
        ("horovod with slots", "4", ["--kv-store", "horovod"]),
        ("horovod with gpus", "2", ["--kv-store", "horovod"]),
        (
            "horovod of tensorflow",
            "4",
            ["--framework", "TensorFlow", "--distribution-strategy", "horovod"],
        ),
    ],
)
def test_slots_run_the_trainer(name: str, slots: str, options: list[str]) -> None:
    worker = container(members(JOBS[name])[-1])
    assert worker["command"] == ["imagenet-slots"]
    join_timeout = ["--join-timeout", "1500"]
    assert worker["args"][:6] == ["--slots", slots, *join_timeout, "--", "imagenet-train"]
    texts = " ".join(worker["args"])
    assert " ".join(options) in texts
    assert texts.count("--kv-store") + texts.count("--framework") == 1


def test_the_rendezvous_needs_nothing_but_its_port() -> None:
    settings = Settings(
        images={"TensorFlow": Images(cpu="cpu:1", gpu="gpu:1")}, grace_period_seconds=3
    )
    rendezvous, worker, *_ = members(JOBS["horovod of tensorflow"], 0, settings)
    assert (container(rendezvous)["image"], container(worker)["image"]) == ("cpu:1", "gpu:1")
    assert container(rendezvous)["command"] == ["imagenet-rendezvous"]
    assert container(rendezvous)["args"] == []
    assert "resources" not in container(rendezvous)
    assert [volume["name"] for volume in rendezvous["spec"]["volumes"]] == ["scratch"]
    assert rendezvous["spec"]["terminationGracePeriodSeconds"] == 3
    ports = {item["name"]: item["containerPort"] for item in container(rendezvous)["ports"]}
    assert ports == {"metrics": 9090, "training": 9091}
    assert literals(rendezvous)["HOROVOD_GLOO_RENDEZVOUS_PORT"] == "9091"
    assert container(rendezvous)["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert literals(rendezvous)["IMAGENET_ROLE"] == "rendezvous"


def test_the_rendezvous_has_a_template_of_its_own() -> None:
    placed = {"spec": {"nodeSelector": {"pool": "cpu"}}}
    horovod = {"rendezvous": {"template": placed}}
    document = manifest(training={"strategy": {"horovod": horovod}, "workers": {"replicas": 2}})
    rendezvous, *workers = members(read(document))
    assert rendezvous["spec"]["nodeSelector"] == {"pool": "cpu"}
    assert all("nodeSelector" not in pod["spec"] for pod in workers)
