"""The variables of a parameter-server job."""

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.rendezvous.dmlc import DmlcMember, DmlcRole

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
