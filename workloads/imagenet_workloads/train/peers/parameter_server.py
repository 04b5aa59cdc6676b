"""A worker among a parameter server's members, by the variables DMLC_*."""

import functools
from collections.abc import Mapping
from contextlib import AbstractContextManager

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.peers.interface import IsHopeless
from imagenet_workloads.train.rendezvous import (
    deadline,
    give_up,
    scheduler_is_gone,
    wait_for_scheduler,
)
from imagenet_workloads.train.roles import Member

VARIABLE = "DMLC_ROLE"


def find(asked: str, variables: Mapping[str, str]) -> "ParameterServer":
    """Read who this worker is.

    Raises:
        InputError: a variable is missing or wrong.
    """
    member = Member.from_mapping(variables)
    if member is None:
        raise InputError(
            f"{asked}: needs scheduler and servers, and DMLC_ROLE says which of them "
            "this is; write local or device to train in this process alone"
        )
    return ParameterServer(member)


class ParameterServer:
    """Scheduler, servers and other workers; implements `Peers`."""

    def __init__(self, member: Member) -> None:
        """Take who this worker is."""
        self._member = member

    def wait(self, timeout: float) -> IsHopeless:
        """Return when the scheduler listens; without it the whole attempt is being ended."""
        address = wait_for_scheduler(self._member, timeout)
        return functools.partial(scheduler_is_gone, address, self._member.port)

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Watch MXNet wait, which it does without a word and without an end."""
        others = f"{self._member.workers} workers and {self._member.servers} servers to join"
        return deadline(others, timeout, give_up)

    def explain(self, error: Exception) -> str | None:
        """Give None: whoever loses a member of a parameter server hears nothing."""
        return None
