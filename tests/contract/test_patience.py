"""Whoever waits for the others of a Horovod job waits as long as everybody else does.

The operator tells Horovod, the programs have a default of their own; one that gave up before the
rest would end an attempt whose last member was still pulling its image.
"""

from importlib import import_module

from imagenet_workloads.train.horovod.slot import Slot
from imagenet_workloads.train.options import parse
from support.job_table import JOBS, members, variables


def told() -> dict[str, str]:
    """The environment of a worker of several slots, as the operator writes it."""
    return variables(members(JOBS["horovod with slots"])[-1]["spec"]["containers"][0])


def test_horovod_its_slots_and_what_runs_in_them_have_one_patience() -> None:
    slots = import_module("imagenet_workloads.commands.slots").build_parser()
    of_launcher = slots.parse_args(["--slots", "4", "--", "imagenet-train"]).join_timeout
    of_trainer = parse(["--kv-store", "horovod"]).cluster.join_timeout
    slot = Slot.from_mapping(told())
    assert slot is not None
    assert slot.timeout == int(told()["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"])
    assert of_launcher == of_trainer == slot.timeout
