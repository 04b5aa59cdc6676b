"""The settings of the builders: the operator and imagenetctl pass one value to every builder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.frameworks.descriptor import Images
from imagenet_spec.names import VERSION
from imagenet_spec.resource.base import Manifest
from imagenet_spec.resource.templates import STANDARD, TemplateProfile

PUBLISHED: Mapping[str, Images] = MappingProxyType(
    {name: framework.images for name, framework in FRAMEWORKS.items()}
)
"""The images that the project publishes, by `spec.training.framework`."""


@dataclass(frozen=True)
class Settings:
    """The part of the operator's configuration that manifests depend on.

    Attributes:
        images: The images by framework; `spec.training.image` overrides those of workers.
        preparation_image: The image of the Jobs that prepare a dataset, for every framework.
        user: The numeric user of every program; never 0.
        group: Its group, and the group of its files on volumes.
        metrics_from: NetworkPolicyPeers that may reach the metrics port, such as the operator and
            Prometheus.
        pod_disruption_budget: Whether voluntary disruptions of an attempt are rejected. Nodes with
            members then cannot be drained.
        safe_to_evict: The value of the cluster autoscaler's annotation; None for no annotation.
        scratch_size: The size limit of a pod's scratch volume; None for no limit.
        preparation_retries: The backoffLimit of preparation Jobs. Failures that a retry would
            repeat are never retried.
        worker_grace_period_seconds: That of a worker, in which it may write a checkpoint.
        one_node: Whether all pods run on one machine, as in a local run.
    """

    images: Mapping[str, Images] = field(default_factory=lambda: PUBLISHED)
    preparation_image: str = f"imagenet-workloads-preparation:{VERSION}"
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    gpu_resource: str = "nvidia.com/gpu"
    user: int = 1000
    group: int = 1000
    metrics_port: int = 9090
    scrape_annotations: bool = True
    network_policy: bool = True
    metrics_from: tuple[Manifest, ...] = ()
    pod_disruption_budget: bool = False
    safe_to_evict: bool | None = None
    shared_memory_size: str = "1Gi"
    scratch_size: str | None = None
    template_profile: TemplateProfile = STANDARD
    preparation_retries: int = 6
    grace_period_seconds: int = 5
    worker_grace_period_seconds: int = 30
    one_node: bool = False


DEFAULTS = Settings()
