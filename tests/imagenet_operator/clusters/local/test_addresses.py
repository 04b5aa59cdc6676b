import ipaddress
import json
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import machine

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
