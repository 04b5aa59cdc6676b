"""Classifies every validation image exactly once, over all workers, and counts.

Counts are added up as whole numbers beside the gradients, never through an optimizer, so that they
equal those of one process that loads the saved model.
"""

from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.train.counts import Counts, count
from imagenet_workloads.train.data.interface import ValidationData
from imagenet_workloads.train.replicas import Replicas
from imagenet_workloads.train.strategies.interface import Strategy


def evaluate(
    replicas: Replicas, data: ValidationData, strategy: Strategy, top_k: int
) -> Counts | None:
    """Count over all validation images; None on the ranks that have no part in it.

    Args:
        replicas: the network, with BatchNorm statistics that all ranks agree on.
        data: the images.
        strategy: if it is collective, each rank takes a share; otherwise rank 0 takes all.
        top_k: a further k to count; 0 is none.

    Raises:
        WorkloadError: not every image came by.
    """
    if strategy.collective:
        rank, ranks = strategy.rank, strategy.workers
    elif strategy.rank == 0:
        rank, ranks = 0, 1
    else:
        return None
    counts = Counts()
    for batch in data.batches(rank, ranks):
        replicas.forward(batch.data)
        labels = batch.label.asnumpy()[: batch.images]
        counts += count(replicas.probabilities()[: batch.images], labels, top_k)
    if strategy.collective:
        counts = Counts(*strategy.add(counts.numbers()))
    if counts.images != data.images:
        raise WorkloadError(
            f"validation saw {counts.images} images of {data.images}: the records changed under it"
        )
    return counts
