"""The members of a parameter-server attempt find each other, and only each other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.manifests import attempt
from imagenet_operator.manifests.settings import Settings
from imagenet_spec.frameworks.descriptor import Images
from imagenet_spec.resource import ImageNetJob
from imagenet_workloads.telemetry.server import LONGEST_WAIT
from support.job_table import JOBS, OWN_PROGRAM, manifest, members, read, variables
from support.random_jobs import jobs

Manifest = dict[str, Any]


def environments(job: ImageNetJob, number: int = 0) -> list[tuple[str, dict[str, str]]]:
    found = []
    for pod in members(job, number):
        container = pod["spec"]["containers"][0]
        role = pod["metadata"]["labels"]["training.imagenet.dev/job-role"]
        found.append((role, variables(container)))
    return found


def member(role: str, name: str = "defaults", settings: Settings | None = None) -> Manifest:
    pods = members(JOBS[name], 0, settings or Settings())
    pod: Manifest = next(
        pod for pod in pods if pod["metadata"]["labels"]["training.imagenet.dev/job-role"] == role
    )
    return pod


def test_the_environment_is_that_of_ps_lite() -> None:
    common = {
        "DMLC_PS_ROOT_URI": "digits-r3-scheduler-0.digits-r3",
        "DMLC_PS_ROOT_PORT": "9091",
        "DMLC_NUM_WORKER": "2",
        "DMLC_NUM_SERVER": "2",
        "DMLC_NODE_HOST": "$(POD_IP)",
    }
    for role, env in environments(JOBS["defaults"], 3):
        expected = {**common, "DMLC_ROLE": role, "IMAGENET_ROLE": role}
        if role != "scheduler":
            expected["PORT"] = "9092"
        assert expected.items() <= env.items()
        assert ("PORT" in env) == (role != "scheduler")


@pytest.mark.parametrize(
    ("training", "expected"),
    [({}, "imagenet-train"), ({"image": "a/b:7"}, "imagenet-train"), (OWN_PROGRAM, None)],
)
def test_servers_alone_know_whether_workers_run_a_program_of_ours(
    training: Manifest, expected: str | None
) -> None:
    found = environments(read(manifest(training=training)))
    told = {role: env.get("IMAGENET_WORKER_PROGRAM") for role, env in found}
    assert told == {"scheduler": None, "server": expected, "worker": None}


@given(
    job=jobs().filter(lambda job: job.spec.training.strategy.kind == "parameterServer"),
    number=st.integers(0, 99),
)
def test_all_members_call_one_scheduler_that_is_there(job: ImageNetJob, number: int) -> None:
    service, *_ = attempt.build(job, number)
    pods = members(job, number)
    addresses = {f"{pod['metadata']['name']}.{service['metadata']['name']}" for pod in pods}
    found = environments(job, number)
    roots = {env["DMLC_PS_ROOT_URI"] for _, env in found}
    assert len(roots) == 1 and roots <= addresses
    counted = [role for role, _ in found]
    for role, env in found:
        assert env["DMLC_ROLE"] == role
        assert int(env["DMLC_NUM_WORKER"]) == counted.count("worker")
        assert int(env["DMLC_NUM_SERVER"]) == counted.count("server")
    assert counted.count("scheduler") == 1


@pytest.mark.parametrize(
    ("role", "port"), [("scheduler", 9091), ("server", 9092), ("worker", 9092)]
)
def test_every_member_tells_itself_when_it_is_at_work(role: str, port: int) -> None:
    container = member(role, settings=Settings(metrics_port=9999))["spec"]["containers"][0]
    ports = {item["name"]: item["containerPort"] for item in container["ports"]}
    assert ports == {"metrics": 9999, "training": port}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": 9999}
    startup = container["startupProbe"]
    assert startup["httpGet"] == {"path": "/readyz?wait", "port": 9999}
    assert startup["timeoutSeconds"] > LONGEST_WAIT
    assert {"name": "IMAGENET_METRICS_PORT", "value": "9999"} in container["env"]


def test_helpers_only_need_the_kvstore_and_the_join_timeout() -> None:
    for role in ("scheduler", "server"):
        container = member(role, "all of training")["spec"]["containers"][0]
        assert container["args"] == [
            *("--kv-store", "dist_device_sync"),
            *("--join-timeout", "1500"),
        ]


@pytest.mark.parametrize(
    ("name", "helper", "worker"),
    [
        ("defaults", "cpu:1", "cpu:1"),
        ("gpus", "cpu:1", "gpu:1"),
        ("own image", "cpu:1", "registry.example/team/train:7"),
    ],
)
def test_helpers_always_run_the_image_for_cpus(name: str, helper: str, worker: str) -> None:
    settings = Settings(images={"MXNet": Images(cpu="cpu:1", gpu="gpu:1")})
    images = {
        role: member(role, name, settings)["spec"]["containers"][0]["image"]
        for role in ("scheduler", "server", "worker")
    }
    assert images == {"scheduler": helper, "server": helper, "worker": worker}


def test_only_workers_ask_for_gpus() -> None:
    settings = Settings(gpu_resource="example.com/gpu")
    worker = member("worker", "gpus", settings)["spec"]["containers"][0]
    assert worker["resources"]["limits"] == {"example.com/gpu": "8"}
    for role in ("scheduler", "server"):
        assert "resources" not in member(role, "gpus")["spec"]["containers"][0]
    worker = member("worker", "defaults")["spec"]["containers"][0]
    assert worker["resources"].keys() == {"requests"}
    assert worker["resources"]["requests"].keys() == {"memory"}


def test_a_worker_has_time_for_a_checkpoint_and_the_others_go_at_once() -> None:
    settings = Settings(grace_period_seconds=3, worker_grace_period_seconds=40)
    graces = {
        role: member(role, settings=settings)["spec"]["terminationGracePeriodSeconds"]
        for role in ("scheduler", "server", "worker")
    }
    assert graces == {"scheduler": 3, "server": 3, "worker": 40}


def test_only_workers_have_shared_memory() -> None:
    def shared(role: str) -> list[Manifest]:
        volumes: list[Manifest] = member(role)["spec"]["volumes"]
        return [item for item in volumes if item.get("emptyDir", {}).get("medium") == "Memory"]

    assert [len(shared(role)) for role in ("scheduler", "server", "worker")] == [0, 0, 1]
    mounts = member("worker")["spec"]["containers"][0]["volumeMounts"]
    assert {"name": shared("worker")[0]["name"], "mountPath": "/dev/shm"} in mounts
