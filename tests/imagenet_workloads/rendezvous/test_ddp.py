"""The processes of DistributedDataParallel before they have joined."""

import socket

import pytest

from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.rendezvous.ddp import DdpRendezvous, Process, find

COMPLETE = {
    "MASTER_ADDR": "digits-r0-worker-0.digits-r0",
    "MASTER_PORT": "9092",
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
}


def test_torchruns_variables_are_read() -> None:
    host = "digits-r0-worker-0.digits-r0"
    assert Process.from_mapping(COMPLETE) == Process(3, 4, 1, 2, host, 9092)


def test_a_process_is_alone_in_its_pod_unless_it_says_otherwise() -> None:
    variables = {name: text for name, text in COMPLETE.items() if not name.startswith("LOCAL_")}
    process = Process.from_mapping(variables)
    assert process is not None and (process.local_rank, process.local_size) == (0, 1)


@pytest.mark.parametrize(
    ("host", "local"), [("127.0.3.1", True), ("10.0.0.7", False), ("localhost", False)]
)
def test_a_loopback_address_is_a_local_run(host: str, local: bool) -> None:
    process = Process.from_mapping(COMPLETE | {"MASTER_ADDR": host})
    assert process is not None and process.is_local is local


def test_without_a_rank_it_says_what_is_needed() -> None:
    assert Process.from_mapping({}) is None
    with pytest.raises(InputError, match=r"x: needs RANK, WORLD_SIZE.*one process needs single"):
        find("x", {})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("RANK", "4", "RANK is '4'; write a whole number from 0 to 3"),
        ("WORLD_SIZE", "", "WORLD_SIZE is ''"),
        ("LOCAL_RANK", "2", "LOCAL_RANK is '2'; write a whole number from 0 to 1"),
        ("MASTER_PORT", "x", "MASTER_PORT is 'x'"),
        ("MASTER_ADDR", "", "RANK is set, so MASTER_ADDR must name the host of rank 0"),
    ],
)
def test_a_wrong_variable_is_named(name: str, value: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Process.from_mapping(COMPLETE | {name: value})


def rendezvous(rank: int, port: int) -> DdpRendezvous:
    return DdpRendezvous(Process(rank, 2, 0, 1, "127.0.0.1", port))


def test_others_wait_until_rank_0_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        waiting = rendezvous(1, server.getsockname()[1])
        assert waiting.wait(60)() is False
        with waiting.joining(60):
            pass
    with (
        pytest.raises(WorkloadError, match=r"process of rank 1 gave up.*rank 0 127.0.0.1:1"),
        rendezvous(1, 1).joining(0.1),
    ):
        pass


def test_rank_0_waits_for_no_port() -> None:
    with rendezvous(0, 1).joining(60):
        pass


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        (
            "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Connection closed by peer "
            "[127.0.0.1]:40000",
            True,
        ),
        ("NCCL error: remote process exited or there was a network error, NCCL version", True),
        ("mat1 and mat2 shapes cannot be multiplied", False),
    ],
)
def test_the_error_of_a_lost_process_is_explained(text: str, lost: bool) -> None:
    found = rendezvous(0, 1).explain(RuntimeError(text))
    assert (found is not None and found.startswith("another process has ended")) is lost
