"""The processes of DistributedDataParallel before they have joined."""

import os
import socket

import pytest

from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.rendezvous import ddp
from imagenet_workloads.rendezvous.ddp import DdpRendezvous, Process, find
from support.sentences import says

COMPLETE = {
    "MASTER_ADDR": "digits-r0-worker-0.digits-r0",
    "MASTER_PORT": "9092",
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
}

_JOINING = ("GLOO_SOCKET_IFNAME", "MASTER_ADDR")


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment, which joining changes; it has no other processes."""
    made = {name: text for name, text in os.environ.items() if name not in _JOINING}
    monkeypatch.setattr(os, "environ", made)
    return made


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
    with pytest.raises(
        InputError, match=says("needs RANK, WORLD_SIZE", "one process needs single")
    ):
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


@pytest.mark.parametrize("rank", ["0", "3"])
def test_pytorch_gets_the_address_of_rank_0_and_resolves_no_name(
    rank: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch asks for an IPv6 address first: in each search domain, and outside of the cluster."""
    monkeypatch.setattr(ddp, "resolve", lambda host, port: "10.0.0.7")
    monkeypatch.setattr(ddp, "wait_for_port", lambda *_: "10.0.0.7")
    with find("x", COMPLETE | {"RANK": rank}).joining(60):
        assert variables["MASTER_ADDR"] == "10.0.0.7"


def test_rank_0_listens_on_all_addresses_also_if_its_name_leads_to_one_of_this_machine(
    variables: dict[str, str],
) -> None:
    """Debian's /etc/hosts has a machine's own name beside 127.0.1.1."""
    with find("x", COMPLETE | {"MASTER_ADDR": "localhost", "RANK": "0"}).joining(60):
        assert "MASTER_ADDR" not in variables


@pytest.mark.parametrize(("host", "interface"), [("127.0.3.1", "lo"), ("10.0.0.7", None)])
def test_gloo_takes_the_loopback_interface_in_a_local_run_only(
    host: str, interface: str | None, variables: dict[str, str]
) -> None:
    with find("x", COMPLETE | {"MASTER_ADDR": host, "RANK": "0"}).joining(60):
        assert variables.get("GLOO_SOCKET_IFNAME") == interface


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
