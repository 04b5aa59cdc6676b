"""The variables of a Horovod job."""

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.rendezvous.horovod import HorovodSlot

COMPLETE = {
    "HOROVOD_RANK": "3",
    "HOROVOD_SIZE": "4",
    "HOROVOD_LOCAL_RANK": "1",
    "HOROVOD_LOCAL_SIZE": "2",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "digits-r0-rendezvous-0.digits-r0",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "9091",
}


def test_a_slot_is_read() -> None:
    host = "digits-r0-rendezvous-0.digits-r0"
    assert HorovodSlot.from_mapping(COMPLETE) == HorovodSlot(3, 4, 1, 2, host, 9091, timeout=30)


def test_horovods_own_timeout_is_known() -> None:
    slot = HorovodSlot.from_mapping(COMPLETE | {"HOROVOD_GLOO_TIMEOUT_SECONDS": "600"})
    assert slot is not None
    assert slot.timeout == 600


@pytest.mark.parametrize("variables", [{}, {"HOROVOD_RANK": ""}])
def test_without_a_rank_there_is_one_process(variables: dict[str, str]) -> None:
    assert HorovodSlot.from_mapping(variables) is None


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("HOROVOD_RANK", "4", "HOROVOD_RANK is '4'; write a whole number from 0 to 3"),
        ("HOROVOD_RANK", "one", "HOROVOD_RANK is 'one'"),
        ("HOROVOD_SIZE", "0", "HOROVOD_SIZE is '0'"),
        ("HOROVOD_SIZE", "", "HOROVOD_SIZE is ''"),
        ("HOROVOD_LOCAL_RANK", "2", "HOROVOD_LOCAL_RANK is '2'; write a whole number from 0 to 1"),
        ("HOROVOD_LOCAL_SIZE", "5", "HOROVOD_LOCAL_SIZE is '5'; write a whole number from 1 to 4"),
        ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "", "must name the rendezvous"),
        ("HOROVOD_GLOO_RENDEZVOUS_PORT", "70000", "HOROVOD_GLOO_RENDEZVOUS_PORT is '70000'"),
        ("HOROVOD_GLOO_TIMEOUT_SECONDS", "0", "HOROVOD_GLOO_TIMEOUT_SECONDS is '0'"),
    ],
)
def test_wrong_variables_are_named(name: str, value: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        HorovodSlot.from_mapping(COMPLETE | {name: value})
