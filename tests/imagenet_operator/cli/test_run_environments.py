"""`imagenetctl run` of strategies whose framework has a separate environment, on stand-ins."""

import json
from pathlib import Path
from typing import Any

import pytest

from support import stand_ins
from support.stand_ins import Workplace

Manifest = dict[str, Any]

HOROVOD = stand_ins.job(training={"strategy": {"horovod": {"slotsPerWorker": 2}}})
MULTI_WORKER = stand_ins.job_of_tensorflow({"multiWorkerMirrored": {}})
HOROVOD_TENSORFLOW = stand_ins.job_of_tensorflow({"horovod": {}})


@pytest.mark.parametrize(
    ("manifest", "suffix", "target"),
    [
        (HOROVOD, "-horovod", "make install-horovod"),
        (MULTI_WORKER, "-tensorflow", "make install-tensorflow"),
        (HOROVOD_TENSORFLOW, "-tensorflow", "make install-tensorflow"),
    ],
)
def test_without_its_environment_nothing_starts(
    workplace: Workplace, manifest: Manifest, suffix: str, target: str
) -> None:
    workplace.write(manifest)

    finished = workplace.run()

    assert finished.code == 3
    assert f"environment{suffix}/bin/imagenet-" in finished.errors
    assert finished.errors.rstrip().endswith(f"type: {target}")
    assert workplace.started() == []


@pytest.mark.parametrize(
    ("manifest", "suffix"), [(HOROVOD, "-horovod"), (HOROVOD_TENSORFLOW, "-tensorflow")]
)
def test_members_run_in_the_environment_and_meet_at_the_rendezvous(
    workplace: Workplace, manifest: Manifest, suffix: str
) -> None:
    workplace.write(manifest)
    programs = workplace.add_environment(suffix)

    finished = workplace.run()

    assert finished.code == 0, finished.errors
    started = {item["POD_NAME"]: item for item in workplace.started()}
    members = {name: item for name, item in started.items() if "-r0-" in name}
    assert {name: Path(item["program"]) for name, item in members.items()} == {
        "digits-r0-rendezvous-0": programs / "imagenet-rendezvous",
        "digits-r0-worker-0": programs / "imagenet-slots",
        "digits-r0-worker-1": programs / "imagenet-slots",
    }
    prepared = {Path(started[name]["program"]) for name in started.keys() - members.keys()}
    assert {path.parent for path in prepared} == {workplace.program("index").parent}
    rendezvous = members["digits-r0-rendezvous-0"]["POD_IP"]
    for name in ("digits-r0-worker-0", "digits-r0-worker-1"):
        assert members[name]["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == rendezvous


def test_tensorflows_workers_know_the_addresses_of_all(workplace: Workplace) -> None:
    workplace.write(MULTI_WORKER)
    workplace.add_environment("-tensorflow")

    assert workplace.run().code == 0

    workers = {item["POD_NAME"]: item for item in workplace.started() if "-r0-" in item["POD_NAME"]}
    names = ["digits-r0-worker-0", "digits-r0-worker-1"]
    configs = [json.loads(workers[name]["TF_CONFIG"]) for name in names]
    told, same = (config["cluster"]["worker"] for config in configs)
    assert told == same
    hosts, ports = zip(*(address.split(":") for address in told), strict=True)
    assert list(hosts) == [workers[name]["POD_IP"] for name in names]
    assert len(set(ports)) == 2, "TensorFlow listens on all addresses"
    assert [config["task"]["index"] for config in configs] == [0, 1]


def test_a_rendezvous_that_ends_takes_the_attempt_along(workplace: Workplace) -> None:
    """As with a scheduler: no member waits for one that has ended."""
    workplace.write(HOROVOD)
    workplace.add_environment("-horovod")
    workplace.behaviour = {"worker@0": "hold", "rendezvous@0": "exit 1"}

    finished = workplace.run("--output", "json")

    assert finished.code == 0, finished.errors
    assert finished.result["restarts"] == 1
    assert "digits-r1-rendezvous-0" in workplace.pods()


@pytest.mark.parametrize(
    "named", ["digits/attempts/r1", "digits/attempts/r1/result.json", "digits"]
)
def test_a_result_is_used_in_the_environment_of_its_framework(
    workplace: Workplace, tmp_path: Path, named: str
) -> None:
    result = tmp_path / "digits" / "attempts" / "r1" / "result.json"
    result.parent.mkdir(parents=True)
    result.write_text('{"framework": "TensorFlow"}')

    finished = workplace.start("predict", "a.jpg", "--model", tmp_path / named).finish()

    assert finished.code == 3
    assert "environment-tensorflow/bin/imagenet-predict" in finished.errors
    assert "make install-tensorflow" in finished.errors
