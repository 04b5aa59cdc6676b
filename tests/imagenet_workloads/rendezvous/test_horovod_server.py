"""The rendezvous's environment and readiness; its answers to Horovod: tests/with_horovod."""

import subprocess
import sys
from http import HTTPStatus
from pathlib import Path

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.rendezvous.horovod_server import (
    Arrivals,
    RefusedRequestError,
    Scopes,
    read_hosts,
    scope_sizes,
)
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
            "POD_IP is fd00::7, and Horovod's rendezvous supports only IPv4; give the pods IPv4",
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


def test_the_scopes_are_those_in_which_slots_meet() -> None:
    assert scope_sizes([("a", 2), ("b", 1)]) == {
        "global": 3,
        "local_a": 2,
        "local_b": 1,
        "cross_0": 2,
        "cross_1": 1,
    }


def test_process_sets_meet_within_each_scope() -> None:
    scopes = Scopes(scope_sizes([("a", 1), ("b", 1)]))
    meeting = "global_process_set_hash_1e9d548172549547"
    for rank in ("0", "1"):
        scopes.put(meeting, f"rank_{rank}", b"host")
        scopes.put(meeting, rank, b"old")
    for rank in ("0", "1"):
        scopes.finish(meeting, rank)
        assert scopes.get(meeting, rank) is None
        assert scopes.get(meeting, f"rank_{rank}") == b"host"
    # The same set again, after it was removed.
    scopes.put(meeting, "rank_0", b"host")
    scopes.put(meeting, "0", b"new")
    assert scopes.get(meeting, "0") == b"new"


def refused(scopes: Scopes, scope: str, key: str, value: bytes) -> HTTPStatus:
    with pytest.raises(RefusedRequestError) as caught:
        scopes.put(scope, key, value)
    return caught.value.status


def test_the_number_of_process_sets_is_limited() -> None:
    scopes = Scopes(scope_sizes([("a", 1)]))
    for number in range(256):
        for scope in ("global", "local_a", "cross_0"):
            scopes.put(f"{scope}_process_set_hash_{number:x}", "0", b"")
    status = refused(scopes, "global_process_set_hash_100", "0", b"")
    assert status is HTTPStatus.INSUFFICIENT_STORAGE
    scopes.put("global", "0", b"")


def test_the_bytes_of_all_values_are_limited_until_slots_have_met() -> None:
    slots = 300
    scopes = Scopes(scope_sizes([("a", slots)]))
    values = 0
    with pytest.raises(RefusedRequestError, match="too many values"):
        for number in range(256):
            for rank in range(slots):
                scope = f"global_process_set_hash_{number:x}" if number else "global"
                scopes.put(scope, str(rank), bytes(scopes.most_bytes))
                values += 1
    assert slots < values < 8 * slots
    for rank in range(slots):
        scopes.finish("global", str(rank))
    scopes.put("global", "0", bytes(scopes.most_bytes))


def test_gloo_s_addresses_of_a_thousand_slots_have_room() -> None:
    slots = 1000
    scopes = Scopes(scope_sizes([(f"worker-{number}", 1) for number in range(slots)]))
    address = bytes(136 * (slots - 1))
    for scope in ("global", "cross_0", "global_process_set_hash_1", "cross_0_process_set_hash_1"):
        for rank in range(slots):
            scopes.put(scope, f"rank_{rank}", b"n" * 64)
            scopes.put(scope, str(rank), address)
