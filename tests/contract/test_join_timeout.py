"""A member waits for the others of its attempt longer than the gang may wait for its nodes.

A member that gave up earlier would end, and charge, an attempt whose last member has no node yet or
is still pulling its image.
"""

from importlib import import_module
from typing import Any

import pytest

from imagenet_spec.resource import ImageNetJob
from imagenet_workloads.commands.train import parse
from imagenet_workloads.rendezvous.horovod import HorovodSlot
from support.job_table import JOBS, members, variables

SCHEDULE_TIMEOUT = 3600
JOIN_TIMEOUT = 4500.0


def waiting_containers(name: str) -> list[dict[str, Any]]:
    """The containers of an attempt's members, by the operator, of a job that waits for an hour."""
    document = JOBS[name].model_dump(by_alias=True, exclude_none=True)
    document["spec"]["runPolicy"]["schedulingPolicy"]["scheduleTimeoutSeconds"] = SCHEDULE_TIMEOUT
    pods = members(ImageNetJob.model_validate(document))
    return [pod["spec"]["containers"][0] for pod in pods]


@pytest.mark.parametrize(
    "name", ["defaults", "asynchronous", "multi-worker mirrored", "distributed data parallel"]
)
def test_members_wait_for_those_without_a_node(name: str) -> None:
    for container in waiting_containers(name):
        assert parse(container["args"]).cluster.join_timeout == JOIN_TIMEOUT


def test_members_of_an_elastic_job_wait_longer_than_its_wait() -> None:
    for container in waiting_containers("elastic"):
        assert parse(container["args"]).cluster.join_timeout == 120 + 900


def test_horovod_its_slots_and_what_runs_in_them_have_one_join_timeout() -> None:
    slots = import_module("imagenet_workloads.commands.slots").build_parser()
    worker = waiting_containers("horovod with slots")[-1]
    parsed = slots.parse_args(worker["args"])
    slot = HorovodSlot.from_mapping(variables(worker))
    assert slot is not None
    stall = float(variables(worker)["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"])
    of_trainer = parse(parsed.command[1:]).cluster.join_timeout
    assert parsed.join_timeout == of_trainer == slot.timeout == stall == JOIN_TIMEOUT
