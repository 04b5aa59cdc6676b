"""The scheduler and the servers: MXNet's own code under its role, with metrics beside it.

They live in a function of MXNet's that returns when the last worker has left. So whatever they do
besides is started before.
"""

import logging
import signal
import threading
from collections.abc import Mapping

from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry import server
from imagenet_workloads.telemetry.log import log_readably
from imagenet_workloads.train import kvstore_server
from imagenet_workloads.train.joined import Listener
from imagenet_workloads.train.rendezvous import give_up, wait_for_scheduler, watch
from imagenet_workloads.train.roles import Member

_log = logging.getLogger(__name__)


def run(member: Member, timeout: float, variables: Mapping[str, str]) -> int:
    """Serve until the job is over; SIGTERM and SIGINT end it at once.

    Args:
        member: a scheduler or a server.
        timeout: seconds to wait for the scheduler, and again for the other members.
        variables: the environment.

    Raises:
        WorkloadError: the scheduler does not come, or MXNet cannot serve.
    """
    # Nothing here is worth saving, and a handler of Python's would never run inside MXNet.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    log_readably()
    listener = Listener.of(member)
    server.start(
        Environment.from_mapping(variables), listener.missing if listener else _nobody_knows
    )
    wait_for_scheduler(member, timeout)
    _log.info(
        "%s for %d workers and %d servers, at %s:%d",
        member.role,
        member.workers,
        member.servers,
        member.host,
        member.port,
    )
    if listener is not None:
        threading.Thread(
            target=watch,
            args=(listener.missing, timeout, give_up, threading.Event()),
            name="deadline",
            daemon=True,
        ).start()
    kvstore_server.serve()
    return 0


def _nobody_knows() -> str:
    return "who has joined is seen only where PORT and DMLC_NODE_HOST are set"
