"""What this machine gives to pods: loopback addresses, GPUs, and folders of claims."""

import ipaddress
import json
import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import machine
from imagenet_operator.clusters.local.machine import Gpus, Volumes, find_gpus
from support.sentences import says

HOLD_A_BLOCK = """
import sys
from imagenet_operator.clusters.local import machine
block = machine.claim_addresses()
print(block.of("pod"), flush=True)
sys.stdin.read()
"""


def test_pods_get_different_addresses_and_keep_them() -> None:
    with closing(machine.claim_addresses()) as block:
        first, second = block.of("a"), block.of("b")

        assert first != second
        assert block.of("a") == first
        assert ipaddress.ip_address(first) in ipaddress.ip_network("127.0.0.0/8")
        assert first.rpartition(".")[0] == second.rpartition(".")[0]


def test_a_released_address_rests_as_long_as_possible() -> None:
    with closing(machine.claim_addresses()) as block:
        first = block.of("a")
        block.release("a")
        others = {block.of(f"other-{number}") for number in range(252)}

        assert first not in others
        assert block.of("last") == first


def test_says_how_many_pods_fit() -> None:
    with closing(machine.claim_addresses()) as block:
        for number in range(253):
            block.of(f"pod-{number}")
        with pytest.raises(LocalError, match="at most 253 pods"):
            block.of("one more")


def test_addresses_can_be_listened_on_with_the_same_port() -> None:
    with closing(machine.claim_addresses()) as block, closing(socket.socket()) as one:
        one.bind((block.of("a"), 0))
        port = one.getsockname()[1]
        with closing(socket.socket()) as two:
            two.bind((block.of("b"), port))


def test_runs_never_share_a_block() -> None:
    blocks = [machine.claim_addresses() for _ in range(50)]
    prefixes = {block.of("pod").rpartition(".")[0] for block in blocks}
    for block in blocks:
        block.close()

    assert len(prefixes) == 50


def test_a_block_in_use_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter([77, 7, 77, 7, 77, 8])
    monkeypatch.setattr("random.randint", lambda _low, _high: next(numbers))
    with closing(machine.claim_addresses()) as one, closing(machine.claim_addresses()) as two:
        assert one.of("pod").startswith("127.77.7.")
        assert two.of("pod").startswith("127.77.8.")


def test_a_killed_run_lets_go_of_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_A_BLOCK], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        _, a, b, _ = holder.stdout.readline().decode().strip().split(".")
        holder.kill()
    numbers = iter([int(a), int(b)])
    monkeypatch.setattr("random.randint", lambda _low, _high: next(numbers))

    with closing(machine.claim_addresses()) as block:
        assert block.of("pod").startswith(f"127.{a}.{b}.")


def test_a_block_in_which_a_port_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter([78, 7, 78, 8])
    monkeypatch.setattr("random.randint", lambda _low, _high: next(numbers))
    with (
        closing(socket.create_server(("127.78.7.1", 0))) as other,
        closing(machine.claim_addresses([other.getsockname()[1]])) as block,
    ):
        assert block.of("pod").startswith("127.78.8.")


def test_addresses_that_listen_everywhere_get_a_port_each() -> None:
    hosts = [f"127.31.7.{number}" for number in range(2, 255)]
    text = json.dumps({"worker": [f"{host}:9092" for host in hosts]})
    moved = json.loads(machine.with_own_ports(text))["worker"]
    ports = {int(address.partition(":")[2]) for address in moved}
    assert [address.partition(":")[0] for address in moved] == hosts
    assert len(ports) == len(hosts)
    assert all(20_000 <= port < 32_000 for port in ports)


@pytest.mark.parametrize(
    "text", ["story-r0-worker-0.story-r0:9092", "10.127.0.0.1:9092", "1127.0.0.1:90", "127.0.0.1"]
)
def test_other_addresses_keep_their_ports(text: str) -> None:
    assert machine.with_own_ports(text) == text


def test_a_port_that_is_taken_everywhere_is_named() -> None:
    with closing(socket.socket()) as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(LocalError, match=f"port {port} .*0.0.0.0:{port}; stop that program"):
            machine.claim_addresses([port])


def test_an_anchor_port_that_is_taken_everywhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.socket()) as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        monkeypatch.setattr(machine, "ANCHOR_PORT", other.getsockname()[1])

        with pytest.raises(LocalError, match="no free block"):
            machine.claim_addresses()


LISTING = """GPU 0: NVIDIA H100 (UUID: GPU-1)
  MIG 1g.10gb     Device  0: (UUID: MIG-1)
  MIG 1g.10gb     Device  1: (UUID: MIG-2)
GPU 1: NVIDIA H100 (UUID: GPU-2)
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An nvidia-smi; without a text it does not work."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexit 9\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return program


def test_pods_never_share_a_gpu() -> None:
    shared = Gpus(("0", "1", "2"))

    assert shared.take("a", 2) == ("0", "1")
    assert shared.take("b", 2) is None, "all or none"
    assert shared.take("c", 1) == ("2",)
    shared.release("a")
    assert shared.take("b", 2) == ("0", "1")
    assert shared.take("d", 0) == ()


@pytest.mark.parametrize(
    ("requested", "visible", "expected"),
    [
        (None, "", ()),
        (None, "-1", ()),
        (None, "2, 3", ("2", "3")),
        (1, "2,3", ("2",)),
        (None, "GPU-8f,GPU-90", ("GPU-8f", "GPU-90")),
        (3, None, ("0", "1", "2")),
        (0, "2,3", ()),
    ],
)
def test_what_was_said_counts(
    requested: int | None, visible: str | None, expected: tuple[str, ...], tmp_path: Path
) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}

    assert find_gpus(requested, environment, tmp_path) == expected


def test_more_than_is_allowed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="--gpus 3 is more than CUDA_VISIBLE_DEVICES=2,3 allows"):
        find_gpus(3, {"CUDA_VISIBLE_DEVICES": "2,3"}, tmp_path)


def test_the_drivers_tool_is_asked(tool: Path, tmp_path: Path) -> None:
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{LISTING}END\n")

    assert find_gpus(None, {}, tmp_path) == ("0", "1")


def test_device_nodes_are_counted_where_the_tool_fails(tool: Path, tmp_path: Path) -> None:
    devices = tmp_path / "dev"
    devices.mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (devices / name).touch()

    assert find_gpus(None, {}, devices) == ("0", "1")


def test_no_device_folder_is_no_gpu(tool: Path, tmp_path: Path) -> None:
    assert find_gpus(None, {}, tmp_path / "none") == ()


def test_a_claim_is_a_folder_once_it_is_provisioned(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path / "volumes", {})
    with pytest.raises(LocalError, match=f"create {tmp_path}/volumes/data .* --volume data=PATH"):
        volumes.folder("data")

    volumes.provision("data")

    assert volumes.folder("data") == tmp_path / "volumes" / "data"


def test_a_folder_that_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path / ("x" * 300), {})

    with pytest.raises(
        LocalError, match=says("claim 'data'", "File name too long", "--volume data=PATH")
    ):
        volumes.folder("data")


def test_what_is_there_already_is_kept(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path, {})
    volumes.provision("data")
    (volumes.folder("data") / "file").touch()

    volumes.provision("data")

    assert (volumes.folder("data") / "file").exists()


def test_a_removed_claim_takes_its_files_along(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path, {})
    volumes.provision("data")
    (volumes.folder("data") / "file").touch()

    volumes.remove("data")

    assert not (tmp_path / "data").exists()


def test_a_mapped_folder_is_never_removed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    volumes = Volumes(tmp_path / "volumes", {"raw": elsewhere})
    assert volumes.folder("raw") == elsewhere

    volumes.remove("raw")

    assert elsewhere.is_dir()
