"""Counting connections, as the kernel lists them."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from imagenet_workloads.rendezvous.dmlc import DmlcMember, DmlcRole, Listener

# A server at 10.0.0.7:9092: it listens, the scheduler, a worker and itself are connected, another
# worker has left, someone asks for its metrics, and it is connected to the scheduler.
TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0700000A:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11
   1: 0700000A:2384 0500000A:D431 01 00000000:00000000 00:00000000 00000000  1000        0 12
   2: 0700000A:2384 0800000A:D432 01 00000000:00000000 00:00000000 00000000  1000        0 13
   3: 0700000A:2384 0700000A:D433 01 00000000:00000000 00:00000000 00000000  1000        0 14
   4: 0700000A:D433 0700000A:2384 01 00000000:00000000 00:00000000 00000000  1000        0 15
   5: 0700000A:2384 0900000A:D434 08 00000000:00000000 00:00000000 00000000  1000        0 16
   6: 0700000A:2382 0500000A:D435 01 00000000:00000000 00:00000000 00000000  1000        0 17
   7: 0700000A:D436 0500000A:2383 01 00000000:00000000 00:00000000 00000000  1000        0 18
"""


@pytest.mark.parametrize(
    ("host", "expected", "missing"),
    [
        ("10.0.0.7", 3, None),
        ("10.0.0.7", 4, "1 of 3 members to connect"),
        ("10.0.0.8", 4, "3 of 3 members to connect"),
        ("nobody.invalid", 4, "3 of 3 members to connect"),
    ],
)
def test_those_connected_have_joined(
    tmp_path: Path, host: str, expected: int, missing: str | None
) -> None:
    table = tmp_path / "tcp"
    table.write_text(TABLE)
    assert Listener(host, 9092, expected, table).missing() == missing


def test_a_scheduler_hears_of_everyone_and_a_server_of_scheduler_and_workers() -> None:
    scheduler = DmlcMember(DmlcRole.SCHEDULER, "root", 9091, 16, 4)
    assert Listener.of(scheduler) == Listener("root", 9091, 21)
    server = DmlcMember(DmlcRole.SERVER, "root", 9091, 16, 4, "10.0.0.7", 9092)
    assert Listener.of(server) == Listener("10.0.0.7", 9092, 18)
    assert Listener.of(DmlcMember(DmlcRole.SERVER, "root", 9091, 16, 4)) is None


def test_real_connections_are_counted_while_they_last() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = server.getsockname()[1]
        listener = Listener("localhost", port, 3)
        assert listener.missing() == "2 of 2 members to connect"
        for missing in ("2 of 2 members to connect", "1 of 2 members to connect", None):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            stack.enter_context(server.accept()[0])
            assert listener.missing() == missing
