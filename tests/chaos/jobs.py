"""The jobs of a schedule: small ones, of the strategies whose attempts differ most."""

from __future__ import annotations

import random
from dataclasses import dataclass
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
        strategy: Of `_STRATEGIES`.
        is_prepared: Whether its dataset exists.
        policy: Its runPolicy.
        gpus: Of each worker.
        delay: Seconds after which it is applied.
    """

    name: str
    strategy: str
    is_prepared: bool
    policy: Manifest
    gpus: int
    delay: float

    @property
    def size(self) -> int:
        """The members of an attempt."""
        return _STRATEGIES[self.strategy][2]

    def manifest(self) -> Manifest:
        """The job as its user applies it."""
        strategy, workers, _ = _STRATEGIES[self.strategy]
        built = job_table.manifest(
            name=self.name,
            dataset=_FROM_BEFORE if self.is_prepared else _FROM_IMAGES,
            training={
                "strategy": strategy,
                "workers": {"replicas": workers, "gpus": self.gpus},
            },
            run_policy=self.policy,
        )
        if self.is_prepared:
            del built["spec"]["dataset"]["volume"]
        del built["metadata"]["uid"]
        return built


def draw_job(name: str, draw: random.Random) -> JobDraw:
    """Draw a job."""
    strategy = draw.choice(list(_STRATEGIES))
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
        # No published image has Horovod for GPUs.
        gpus=0 if strategy == "horovod" else draw.choice([0, 1]),
        delay=draw.uniform(0, 20),
    )
