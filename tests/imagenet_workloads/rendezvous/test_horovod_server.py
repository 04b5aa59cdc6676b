"""The rendezvous's environment and readiness; its answers to Horovod: tests/with_horovod."""

import subprocess
import sys
from pathlib import Path

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.rendezvous.horovod_server import Arrivals, read_hosts
from support.training_cluster import plain_environment


def test_hosts_are_read() -> None:
    text = "digits-r0-worker-0:2, digits-r0-worker-1:1"
    expected = [("digits-r0-worker-0", 2), ("digits-r0-worker-1", 1)]
    assert read_hosts({"IMAGENET_HOROVOD_HOSTS": text}) == expected


@pytest.mark.parametrize("text", ["", "worker-0", "worker-0:", "worker-0:0", ":2", "a:1,", "a:x"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="write NAME:SLOTS,NAME:SLOTS,…"):
        read_hosts({"IMAGENET_HOROVOD_HOSTS": text})


def test_a_name_stands_for_one_pod() -> None:
    with pytest.raises(InputError, match="a name may occur once"):
        read_hosts({"IMAGENET_HOROVOD_HOSTS": "a:1,b:1,a:2"})


def test_it_is_ready_when_every_slot_has_told_where_it_is() -> None:
    arrivals = Arrivals(2)
    assert arrivals.missing() == "2 of 2 slots to join"
    published = [
        ("global", "rank_1"),
        ("global", "1"),
        ("local_a", "0"),
        ("global", "1"),
        ("cross_0", "0"),
    ]
    for scope, key in published:
        arrivals.note(scope, key)
    assert arrivals.missing() == "1 of 2 slots to join"
    arrivals.note("global", "0")
    assert arrivals.missing() is None


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "IMAGENET_HOROVOD_HOSTS is ''"),
        ({"IMAGENET_HOROVOD_HOSTS": "a:1"}, "HOROVOD_GLOO_RENDEZVOUS_PORT is ''"),
        (
            {
                "IMAGENET_HOROVOD_HOSTS": "a:1",
                "HOROVOD_GLOO_RENDEZVOUS_PORT": "9091",
                "POD_IP": "fd00::7",
            },
            "POD_IP is fd00::7, and Horovod's rendezvous supports only IPv4; give the pods",
        ),
    ],
)
def test_what_is_missing_is_said(variables: dict[str, str], message: str) -> None:
    ended = subprocess.run(
        [str(Path(sys.executable).parent / "imagenet-rendezvous")],
        env=plain_environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 3, ended.stderr
    assert f"imagenet-rendezvous: error: {message}" in ended.stderr
