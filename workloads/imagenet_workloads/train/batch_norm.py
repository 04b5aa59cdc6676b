"""One set of BatchNorm statistics for all workers, before they are evaluated or saved.

Weights are the same on every worker of a synchronous strategy, but each moves its own means and
variances, from its own images. `fit` calls this on every rank at the same step.
"""

import mxnet as mx

from imagenet_workloads.train.replicas import Replicas
from imagenet_workloads.train.strategies.interface import Strategy


def average_statistics(replicas: Replicas, strategy: Strategy) -> None:
    """Set every moving mean and variance to its average over all devices of all workers.

    Where workers cannot add up numbers, rank 0 evaluates and saves alone, from its own devices.

    The variance between the workers' means is left out, as if each batch were drawn from the whole
    dataset, which is what the shuffled shards give.
    """
    # MXNet 1.9.1 moves the statistics in the backward pass without telling its engine: whoever read
    # them before that has ended would get those of the step before.
    mx.nd.waitall()
    strategy.average({name: replicas.statistics(name) for name in replicas.statistic_names})
    # Whoever leaves after this must not take along a push that others wait for.
    mx.nd.waitall()
