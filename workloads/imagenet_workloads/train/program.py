"""Starts the role that this process has, in the child that `init` makes; for `commands.train`."""

import os

from imagenet_workloads.commands.program import run_program
from imagenet_workloads.lean import lighten_mxnet
from imagenet_workloads.telemetry.log import log_readably
from imagenet_workloads.train import servant, worker
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.roles import Member, Role


def run(options: Options) -> int:
    """Run the role that DMLC_ROLE names, a worker without it; return the exit code."""
    return run_program("imagenet-train", lambda: _role(options))


def _role(options: Options) -> int:
    log_readably()
    lighten_mxnet()
    member = Member.from_mapping(os.environ)
    if member is not None:
        os.environ.update(member.variables())
        if member.role is not Role.WORKER:
            return servant.run(member, options.cluster.join_timeout, os.environ)
    return worker.run(options, os.environ)
