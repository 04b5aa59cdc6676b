"""The strategy `distributedDataParallel`: PyTorch's workers, which meet at the first one.

The environment is that of `torchrun`, for a worker's first process. If a worker has several,
`imagenet-slots` starts them and derives theirs.
"""

from __future__ import annotations

from imagenet_operator.manifests import names, rendezvous, worker
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.manifests.strategies import Replicas
from imagenet_spec.resource import ImageNetJob


def members(job: ImageNetJob, attempt: int, settings: Settings) -> list[Replicas]:
    """Return the workers of an attempt."""
    workers = job.spec.training.workers
    strategy = job.spec.training.strategy.distributed_data_parallel
    assert strategy is not None, "this module serves no other strategy"
    processes = strategy.processes(workers.gpus)
    trainer = worker.program(
        job,
        settings,
        {"join_timeout": rendezvous.join_timeout(job)},
        environment={
            "MASTER_ADDR": names.address(job.metadata.name, attempt, worker.ROLE, 0),
            "MASTER_PORT": str(rendezvous.MEMBER_PORT),
            "WORLD_SIZE": str(workers.replicas * processes),
            "LOCAL_WORLD_SIZE": str(processes),
            "LOCAL_RANK": "0",
        },
        ports={"training": rendezvous.MEMBER_PORT},
        slots=processes if processes > 1 else None,
    )
    ranks = range(workers.replicas)
    return [
        Replicas(
            trainer,
            [{"RANK": str(index * processes), "GROUP_RANK": str(index)} for index in ranks],
        )
    ]
