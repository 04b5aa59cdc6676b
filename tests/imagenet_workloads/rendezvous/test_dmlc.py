"""The variables of a parameter-server job."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.rendezvous.dmlc import DmlcMember, DmlcRole, Listener

COMPLETE = {
    "DMLC_ROLE": "worker",
    "DMLC_PS_ROOT_URI": "digits-r0-scheduler-0.digits-r0",
    "DMLC_PS_ROOT_PORT": "9091",
    "DMLC_NUM_WORKER": "2",
    "DMLC_NUM_SERVER": "1",
}


def test_a_member_is_read() -> None:
    expected = DmlcMember(DmlcRole.WORKER, "digits-r0-scheduler-0.digits-r0", 9091, 2, 1)
    assert DmlcMember.from_mapping(COMPLETE) == expected


def test_where_it_listens_is_read_where_it_is_said() -> None:
    own = {"DMLC_NODE_HOST": "10.0.0.7", "PORT": "9092"}
    assert DmlcMember.from_mapping(COMPLETE | own) == DmlcMember(
        DmlcRole.WORKER, "digits-r0-scheduler-0.digits-r0", 9091, 2, 1, "10.0.0.7", 9092
    )


@pytest.mark.parametrize("variables", [{}, {"DMLC_ROLE": ""}])
def test_without_a_role_there_is_one_process(variables: dict[str, str]) -> None:
    assert DmlcMember.from_mapping(variables) is None


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("DMLC_ROLE", "driver", "write one of scheduler, server, worker"),
        ("DMLC_PS_ROOT_URI", "", "DMLC_PS_ROOT_URI must name the scheduler"),
        ("DMLC_PS_ROOT_PORT", "70000", "DMLC_PS_ROOT_PORT is '70000'"),
        ("DMLC_PS_ROOT_PORT", "", "DMLC_PS_ROOT_PORT is ''"),
        ("DMLC_NUM_WORKER", "0", "DMLC_NUM_WORKER is '0'"),
        ("DMLC_NUM_SERVER", "one", "DMLC_NUM_SERVER is 'one'"),
        ("PORT", "http", "PORT is 'http'"),
        ("DMLC_PS_ROOT_URI", "::1", "DMLC_PS_ROOT_URI is ::1, and .* supports only IPv4; give"),
        ("DMLC_NODE_HOST", "fd00::7", "DMLC_NODE_HOST is fd00::7, and .* supports only IPv4; give"),
    ],
)
def test_wrong_variables_are_named(name: str, value: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        DmlcMember.from_mapping(COMPLETE | {name: value})


@pytest.mark.parametrize(
    ("host", "everywhere"),
    [("digits-r0-scheduler-0.digits-r0", True), ("127.0.3.1", False)],
)
def test_only_names_make_the_scheduler_bind_every_address(host: str, everywhere: bool) -> None:
    member = DmlcMember(DmlcRole.SCHEDULER, host, 9091, 2, 1)
    assert member.variables() == ({"DMLC_USE_KUBERNETES": "1"} if everywhere else {})


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
