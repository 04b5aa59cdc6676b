"""The strategy `multiWorkerMirrored`: TensorFlow's workers, which find each other by TF_CONFIG.

Every worker is told the addresses of all, in the order of their indices, and its own place among
them: TensorFlow ranks them by it. Nobody introduces them; each waits until the others listen.
"""

from __future__ import annotations

import json

from imagenet_operator.api import ImageNetJob
from imagenet_operator.manifests import names, rendezvous, worker
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.manifests.strategies import Replicas


def members(job: ImageNetJob, attempt: int, settings: Settings) -> list[Replicas]:
    """Return the workers of an attempt."""
    trainer = worker.program(
        job,
        settings,
        rendezvous.join_timeout_option(job),
        ports={"training": rendezvous.MEMBER_PORT},
    )
    return [Replicas(trainer, [{"TF_CONFIG": config} for config in _configs(job, attempt)])]


def _configs(job: ImageNetJob, attempt: int) -> list[str]:
    """Return each worker's TF_CONFIG; what all share is written once, since it names all."""
    workers = range(job.spec.training.workers.replicas)
    addresses = [names.address(job.metadata.name, attempt, worker.ROLE, peer) for peer in workers]
    cluster = json.dumps(
        {"worker": [f"{address}:{rendezvous.MEMBER_PORT}" for address in addresses]}
    )
    tasks = (json.dumps({"type": "worker", "index": index}) for index in workers)
    return [f'{{"cluster": {cluster}, "task": {task}}}' for task in tasks]
