"""A worker until its framework may start: what it can check and say before it waits for others.

A process of which the environment says nothing is a worker too, one that waits for nobody.
`program` starts it, in the child that `init` makes; `session` goes on. Imports MXNet or TensorFlow
only at its very end.
"""

import os
from collections.abc import Mapping

from imagenet_workloads.checkpoint.store import CheckpointStore
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.telemetry.registry import Registry
from imagenet_workloads.telemetry.server import serve
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train.identity import identify
from imagenet_workloads.train.learner import Framework
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.peers import choose
from imagenet_workloads.train.peers.interface import Peers
from imagenet_workloads.train.session import Worker, train
from imagenet_workloads.train.termination import Termination


def run(options: Options, variables: Mapping[str, str]) -> int:
    """Be a worker; return its exit code.

    Raises:
        WorkloadError: it cannot go on.
    """
    peers = choose.find(options, variables)
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
    termination.is_hopeless = peers.wait(options.cluster.join_timeout)
    framework = _framework(options, peers, store)
    worker = Worker(options, environment, store, identity, recorder, termination, framework)
    try:
        return train(worker)
    except Exception as error:
        reason = peers.explain(error)
        if reason is None:
            raise
        raise WorkloadError(reason) from error


def _framework(options: Options, peers: Peers, store: CheckpointStore) -> Framework:
    if options.cluster.framework == "TensorFlow":
        # Without what it says at every start about the processor.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        from imagenet_workloads.train.tensorflow.framework import TensorFlow

        return TensorFlow(options, peers, store.attempt_folder)
    from imagenet_workloads.train.strategies.choose import join
    from imagenet_workloads.train.strategies.interface import Strategy
    from imagenet_workloads.train.with_mxnet import MXNet

    def join_in_time() -> Strategy:
        with peers.joining(options.cluster.join_timeout):
            return join(options.cluster)

    return MXNet(options, join_in_time)
