from pathlib import Path

import pytest

from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError

WORKER = {
    "POD_NAME": "digits-r2-worker-0",
    "POD_IP": "10.1.2.3",
    "IMAGENET_JOB": "digits",
    "IMAGENET_NAMESPACE": "vision",
    "IMAGENET_JOB_UID": "6d1f",
    "IMAGENET_ROLE": "worker",
    "IMAGENET_METRICS_PORT": "9090",
    "IMAGENET_TERMINATION_LOG": "/dev/termination-log",
    "IMAGENET_SOURCE": "/source",
    "IMAGENET_DATA": "/data",
    "IMAGENET_OUTPUT": "/output",
    "IMAGENET_SCRATCH": "/scratch",
    "IMAGENET_CPUS": "4",
    "IMAGENET_PODS_ON_NODE": "8",
    "IMAGENET_ATTEMPT": "2",
    "IMAGENET_SPEC_HASH": "ab12",
    "JOB_COMPLETION_INDEX": "7",
}


def test_every_variable_has_its_field() -> None:
    assert Environment.from_mapping(WORKER) == Environment(
        pod_name="digits-r2-worker-0",
        pod_ip="10.1.2.3",
        job="digits",
        namespace="vision",
        job_uid="6d1f",
        role="worker",
        metrics_port=9090,
        termination_log=Path("/dev/termination-log"),
        source=Path("/source"),
        data=Path("/data"),
        output=Path("/output"),
        scratch=Path("/scratch"),
        cpus=4,
        pods_on_node=8,
        attempt=2,
        spec_hash="ab12",
        completion_index=7,
    )


def test_with_no_cluster_everything_has_a_default() -> None:
    assert Environment.from_mapping({"PATH": "/bin"}) == Environment()
    assert Environment().job == "local"
    assert Environment().metrics_port == 0


def test_an_empty_value_counts_as_unset() -> None:
    assert Environment.from_mapping(dict.fromkeys(WORKER, "")) == Environment()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("IMAGENET_ROLE", "wörker", "one of fetch, index, pack, seal, publish, upload, scheduler"),
        ("IMAGENET_METRICS_PORT", "http", "a whole number"),
        ("IMAGENET_METRICS_PORT", "65536", "at most 65535"),
        ("IMAGENET_METRICS_PORT", "-1", "at least 0"),
        ("IMAGENET_ATTEMPT", "1.5", "a whole number"),
        ("IMAGENET_ATTEMPT", "1_0", "a whole number"),
        ("IMAGENET_ATTEMPT", "٣", "a whole number"),
        ("JOB_COMPLETION_INDEX", " 7", "a whole number"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_variable(
    name: str, value: str, expected: str
) -> None:
    with pytest.raises(InputError) as caught:
        Environment.from_mapping({**WORKER, name: value})
    assert str(caught.value).startswith(f"{name} is ")
    assert expected in str(caught.value)
