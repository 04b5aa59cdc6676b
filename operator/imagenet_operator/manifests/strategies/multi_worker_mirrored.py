"""The strategy `multiWorkerMirrored`: TensorFlow's workers, which find each other by TF_CONFIG.

There is no scheduler; each worker waits until the others listen.
"""

from __future__ import annotations

import json

from imagenet_operator.manifests import names, rendezvous, worker
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.manifests.strategies import Replicas
from imagenet_spec.resource import ImageNetJob


def members(job: ImageNetJob, attempt: int, settings: Settings) -> list[Replicas]:
    """Return the workers of an attempt."""
    trainer = worker.program(
        job,
        settings,
        {"join_timeout": rendezvous.join_timeout(job)},
        ports={"training": rendezvous.MEMBER_PORT},
    )
    # The shared part is formatted once.
    workers = range(job.spec.training.workers.replicas)
    addresses = [names.address(job.metadata.name, attempt, worker.ROLE, peer) for peer in workers]
    cluster = json.dumps(
        {"worker": [f"{address}:{rendezvous.MEMBER_PORT}" for address in addresses]}
    )
    tasks = (json.dumps({"type": "worker", "index": index}) for index in workers)
    return [
        Replicas(
            trainer,
            [{"TF_CONFIG": f'{{"cluster": {cluster}, "task": {task}}}'} for task in tasks],
        )
    ]
