"""The jobs of a schedule: small ones, of the strategies whose attempts differ most."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from support import job_table

Manifest = dict[str, Any]
_ONE_SERVER = {"parameterServer": {"kvStore": "dist_sync", "servers": {"replicas": 1}}}
_STRATEGIES: dict[str, tuple[Manifest, int, int]] = {
    "servers": (_ONE_SERVER, 1, 3),
    "horovod": ({"horovod": {"slotsPerWorker": 1}}, 2, 3),
    "single": ({"single": {}}, 1, 1),
}
"""Name → strategy, workers, members of an attempt."""

_FURTHER: dict[str, tuple[Manifest, int, int]] = {
    "multiWorkerMirrored": ({"multiWorkerMirrored": {}}, 2, 2),
    "mirrored": ({"mirrored": {}}, 1, 1),
    "distributedDataParallel": ({"distributedDataParallel": {}}, 2, 2),
}
"""Those of which no schedule is drawn: another one would change the schedules behind the page."""

ELASTIC = "elastic"
"""The name of a job of servers whose attempts differ in their number of workers."""

ELASTIC_COUNTS = (2, 3, 4)
CHANGES_PER_HOUR = 2
_ELASTIC_WORKERS = {
    "minReplicas": ELASTIC_COUNTS[0],
    "elastic": {"waitSeconds": 60, "maxChangesPerHour": CHANGES_PER_HOUR},
}

_FROM_IMAGES = {
    "source": {"volume": {"claimName": "raw", "path": "a.tar"}},
    "volume": {"size": "1Gi"},
}
_FROM_BEFORE = {"source": job_table.PREPARED, "volume": None}


@dataclass(frozen=True)
class JobDraw:
    """One job.

    Attributes:
        name: Its name.
        strategy: Of `_STRATEGIES`, or `ELASTIC`.
        is_prepared: Whether its dataset exists.
        policy: Its runPolicy.
        gpus: Of each worker.
        delay: Seconds after which it is applied.
        training: Further fields of its training.
        dataset: Further fields of its dataset.
        labels: Of the job.
    """

    name: str
    strategy: str
    is_prepared: bool
    policy: Manifest
    gpus: int
    delay: float
    training: Manifest = field(default_factory=dict)
    dataset: Manifest = field(default_factory=dict)
    labels: Manifest = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The members of an attempt."""
        return self._parts[2]

    @property
    def _parts(self) -> tuple[Manifest, int, int]:
        if self.strategy == ELASTIC:
            most = ELASTIC_COUNTS[-1]
            return _ONE_SERVER, most, most + 2
        return {**_STRATEGIES, **_FURTHER}[self.strategy]

    def manifest(self) -> Manifest:
        """The job as its user applies it."""
        strategy, workers, _ = self._parts
        elastic = _ELASTIC_WORKERS if self.strategy == ELASTIC else {}
        built = job_table.manifest(
            name=self.name,
            dataset={**(_FROM_BEFORE if self.is_prepared else _FROM_IMAGES), **self.dataset},
            training={
                **self.training,
                "strategy": strategy,
                "workers": {
                    **self.training.get("workers", {}),
                    "replicas": workers,
                    "gpus": self.gpus,
                    **elastic,
                },
                **({"batchSize": 480} if elastic else {}),
            },
            run_policy=self.policy,
        )
        if self.is_prepared:
            del built["spec"]["dataset"]["volume"]
        del built["metadata"]["uid"]
        built["metadata"]["labels"] = dict(self.labels)
        return built


def draw_job(name: str, draw: random.Random, strategy: str | None = None) -> JobDraw:
    """Draw a job, of a strategy if one is given."""
    strategy = strategy or draw.choice(list(_STRATEGIES))
    return JobDraw(
        name=name,
        strategy=strategy,
        is_prepared=draw.random() < 0.6,
        policy={
            "backoffLimit": draw.randint(1, 3),
            "cleanPodPolicy": draw.choice(["Running", "All"]),
            "schedulingPolicy": {
                "gang": draw.choice(["Timeout", "Wait"]),
                "scheduleTimeoutSeconds": 120,
            },
        },
        # Another draw would change the schedules behind the page of `make chaos`.
        gpus=0 if strategy == "horovod" else draw.choice([0, 1]),
        delay=draw.uniform(0, 20),
    )
