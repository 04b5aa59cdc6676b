"""Classifies every validation image exactly once, over all workers, and counts.

Workers sum counts as whole numbers, outside of the optimizer. The sums equal the counts of one
process that loads the saved model.
"""

from collections.abc import Callable

from imagenet_workloads.data.worker_data import ValidationData
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.train.counts import Counts, OutputCounts
from imagenet_workloads.train.framework import Learner
from imagenet_workloads.train.group import Group


def evaluate(
    learner: Learner,
    data: ValidationData,
    group: Group,
    top_k: int,
    worked: Callable[[], None] = lambda: None,
) -> Counts | None:
    """Count over all validation images; None on the ranks that have no part in it.

    Args:
        learner: the network, with BatchNorm statistics that all ranks agree on.
        data: the images.
        group: if it is collective, each rank takes a share; otherwise rank 0 takes all.
        top_k: a further k to count; 0 is none.
        worked: called after each batch.

    Raises:
        WorkloadError: not every image came by.
    """
    if group.collective:
        rank, ranks = group.rank, group.workers
    elif group.rank == 0:
        rank, ranks = 0, 1
    else:
        return None
    classified = OutputCounts(top_k)
    for batch in data.batches(rank, ranks):
        classified.add(learner.predict(batch))
        worked()
    counts = classified.finish()
    if group.collective:
        counts = Counts(*group.add(counts.numbers()))
    if counts.images != data.images:
        raise WorkloadError(
            f"validation saw {counts.images} images of {data.images}: the records changed under it"
        )
    return counts
