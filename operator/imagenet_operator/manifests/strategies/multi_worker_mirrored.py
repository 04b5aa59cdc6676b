"""The strategy `multiWorkerMirrored`: TensorFlow's workers, which find each other by TF_CONFIG.

Every worker is told the addresses of all, in the order of their indices, and its own place among
them: TensorFlow ranks them by it. Nobody introduces them; each waits until the others listen.
"""

from __future__ import annotations

import json

from imagenet_operator.api import ImageNetJob
from imagenet_operator.manifests import names, patience, ports, worker
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.manifests.strategies import Member


def members(job: ImageNetJob, attempt: int, settings: Settings) -> list[Member]:
    """Return the workers of an attempt."""
    return [
        Member(
            index,
            worker.program(
                job,
                settings,
                patience.option(job),
                environment={"TF_CONFIG": _config(job, attempt, index)},
                ports={"training": ports.MEMBER},
            ),
        )
        for index in range(job.spec.training.workers.replicas)
    ]


def _config(job: ImageNetJob, attempt: int, index: int) -> str:
    addresses = [
        names.address(job.metadata.name, attempt, worker.ROLE, peer)
        for peer in range(job.spec.training.workers.replicas)
    ]
    cluster = {"worker": [f"{address}:{ports.MEMBER}" for address in addresses]}
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
