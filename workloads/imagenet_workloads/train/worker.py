"""A worker until its framework may start: what it can check and say before it waits for others.

A process without DMLC_ROLE is a worker too, one that waits for nobody. `program` starts it, in
the child that `init` makes; `session` goes on. Imports MXNet or TensorFlow only at its very end.
"""

import functools
from collections.abc import Mapping

from imagenet_workloads.checkpoint.store import CheckpointStore
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError
from imagenet_workloads.telemetry.registry import Registry
from imagenet_workloads.telemetry.server import serve
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train.identity import identify
from imagenet_workloads.train.learner import Framework
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.rendezvous import (
    deadline,
    give_up,
    scheduler_is_gone,
    wait_for_scheduler,
)
from imagenet_workloads.train.roles import Member
from imagenet_workloads.train.session import Worker, train
from imagenet_workloads.train.termination import Termination


def run(options: Options, member: Member | None, variables: Mapping[str, str]) -> int:
    """Be a worker; return its exit code.

    Raises:
        WorkloadError: it cannot go on.
    """
    _check_store(options, member)
    environment = Environment.from_mapping(variables)
    termination = Termination(options.cluster.termination_grace)
    termination.listen()
    registry = Registry(environment)
    recorder = TrainingRecorder(registry)
    serve(registry, environment, recorder.readiness)
    identity = identify(options, environment)
    store = CheckpointStore(
        options.output.output, environment.attempt or 0, identity, options.output.checkpoint_keep
    )
    store.refuse_later_attempt()
    if member is not None:
        address = wait_for_scheduler(member, options.cluster.join_timeout)
        termination.is_hopeless = functools.partial(scheduler_is_gone, address, member.port)

    framework = _framework(options, member)
    return train(Worker(options, environment, store, identity, recorder, termination, framework))


def _framework(options: Options, member: Member | None) -> Framework:
    from imagenet_workloads.train.strategies.choose import join
    from imagenet_workloads.train.strategies.interface import Strategy
    from imagenet_workloads.train.with_mxnet import MXNet

    def join_in_time() -> Strategy:
        if member is None:
            return join(options.cluster)
        others = f"{member.workers} workers and {member.servers} servers to join"
        with deadline(others, options.cluster.join_timeout, give_up):
            return join(options.cluster)

    return MXNet(options, join_in_time)


def _check_store(options: Options, member: Member | None) -> None:
    distributed = options.cluster.kv_store.startswith("dist")
    if distributed and member is None:
        raise InputError(
            f"--kv-store {options.cluster.kv_store}: needs scheduler and servers, and DMLC_ROLE "
            "says which of them this is; write local or device to train in this process alone"
        )
    if member is not None and not distributed:
        raise InputError(
            f"--kv-store {options.cluster.kv_store}: DMLC_ROLE is {member.role}, and that needs "
            "dist_sync, dist_device_sync or dist_async"
        )
