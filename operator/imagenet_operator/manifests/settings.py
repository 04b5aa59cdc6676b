"""What the builders take from the operator's own configuration instead of from a job.

One value is made where a process begins (the operator's configuration file, imagenetctl's own) and
is passed to every builder; the defaults are what the project itself publishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from imagenet_operator.api.base import Manifest
from imagenet_operator.api.frameworks import FRAMEWORKS, Images

PUBLISHED: Mapping[str, Images] = MappingProxyType(
    {name: framework.images for name, framework in FRAMEWORKS.items()}
)
"""The images that the project publishes, by `spec.training.framework`."""


@dataclass(frozen=True)
class Settings:
    """The operator's configuration, as far as manifests show it.

    Attributes:
        images: By framework; `spec.training.image` goes before those of the workers.
        image_pull_policy: Of every container that runs one of them, or a job's own.
        gpu_resource: What a worker asks for to get a GPU.
        user: The numeric user of every program; never 0.
        group: Its group, and the group of what it writes to volumes.
        metrics_port: Where every pod serves its metrics.
        network_policy: Whether pods are closed to all but the members of their own attempt.
        metrics_from: Who else may reach the metrics port (NetworkPolicyPeers): the operator, which
            samples progress there, and whoever scrapes. Nobody if it is empty.
        pod_disruption_budget: Whether voluntary disruptions (a drain, say) are refused while an
            attempt is there. Nodes with members cannot be drained then.
        safe_to_evict: What pods tell the cluster autoscaler; None tells it nothing.
        shared_memory_size: The most that a worker may put into /dev/shm.
        scratch_size: The most that a pod may put into its scratch before it is evicted; None for
            what its node has.
        preparation_retries: How often a pod of a preparation Job may fail before the Job does.
            Failures that a retry would repeat are not retried, whatever this says.
        grace_period_seconds: Of every pod but a worker.
        worker_grace_period_seconds: Of a worker, which may write a checkpoint in it.
    """

    images: Mapping[str, Images] = field(default_factory=lambda: PUBLISHED)
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    gpu_resource: str = "nvidia.com/gpu"
    user: int = 1000
    group: int = 1000
    metrics_port: int = 9090
    network_policy: bool = True
    metrics_from: tuple[Manifest, ...] = ()
    pod_disruption_budget: bool = False
    safe_to_evict: bool | None = None
    shared_memory_size: str = "1Gi"
    scratch_size: str | None = None
    preparation_retries: int = 6
    grace_period_seconds: int = 5
    worker_grace_period_seconds: int = 30


DEFAULTS = Settings()
"""What the project publishes."""
