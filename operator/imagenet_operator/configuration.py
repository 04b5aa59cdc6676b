"""The operator's configuration file: the chart writes it, the operator reads it at its start.

Every key is optional. An unknown key is an error, so that a misspelt key is noticed.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import AfterValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from imagenet_operator.manifests import rendezvous
from imagenet_operator.manifests import settings as manifests
from imagenet_operator.reconcile.types import DEFAULTS, ReconcileSettings
from imagenet_spec.errors import ImageNetJobError, UnreadableManifest
from imagenet_spec.frameworks.descriptor import Images
from imagenet_spec.load import load
from imagenet_spec.resource.base import Manifest, Model
from imagenet_spec.resource.quantities import POSITIVE_BYTES
from imagenet_spec.resource.templates import TemplateProfile


def _not_a_training_port(port: int) -> int:
    """Reject the ports of training: a member cannot listen twice on one port.

    A client that may read metrics must not reach an MXNet server, which runs code that it receives.
    """
    if port in (rendezvous.RENDEZVOUS_PORT, rendezvous.MEMBER_PORT):
        raise PydanticCustomError(
            "training_port",
            "{port} is a port of training; "
            "write one from 1024 to 65535 that is neither {meeting} nor {member}",
            {"port": port, "meeting": rendezvous.RENDEZVOUS_PORT, "member": rendezvous.MEMBER_PORT},
        )
    return port


LEASE_NAMESPACE = "kube-system"
"""The default: every cluster has it, and only administrators may write there."""

_Id = Annotated[int, Ge(1), Le(2**31 - 1)]
_Port = Annotated[int, Ge(1024), Le(65535), AfterValidator(_not_a_training_port)]
_Wait = Annotated[float, Ge(0), Le(86400)]
_Name = Annotated[str, MinLen(1)]
_Size = Annotated[str, Field(pattern=POSITIVE_BYTES)]

_PODS = manifests.DEFAULTS
_WAITS = DEFAULTS


class InvalidConfiguration(ImageNetJobError):  # noqa: N818 - what the file is
    """The configuration file is invalid."""


class FrameworkImages(Model):
    """The images of one framework."""

    cpu: _Name
    """The image of everything that needs no GPU."""

    gpu: _Name
    """The image of workers with GPUs."""


class NetworkPolicy(Model):
    """Network access to the pods of a job."""

    enabled: bool = _PODS.network_policy
    """Whether NetworkPolicies admit only the members of an attempt."""

    metrics_from: tuple[Manifest, ...] = _PODS.metrics_from
    """NetworkPolicyPeers that may reach the metrics port."""


class SamplerSettings(Model):
    """Sampling of the metrics of running jobs."""

    enabled: bool = True

    interval_seconds: Annotated[float, Ge(1), Le(3600)] = 15
    """The shortest time between two samples of a job."""

    timeout_seconds: Annotated[float, Gt(0), Le(60)] = 2


class Restarts(Model):
    """Restarts of a job that lost a member."""

    delay_seconds: _Wait = _WAITS.restart_delay.total_seconds()
    """The wait after the second failure of a row; there is none after the first."""

    delay_limit_seconds: _Wait = _WAITS.restart_delay_limit.total_seconds()

    disruption_delay_seconds: _Wait = _WAITS.disruption_delay.total_seconds()

    disruption_limit: Annotated[int, Ge(0)] = _WAITS.disruption_limit
    """The largest number of disruptions of a job since an attempt last progressed."""


class _File(Model):
    """The whole file; a setting of the manifests has the name that it has there."""

    namespaces: tuple[_Name, ...] = ()
    lease_namespace: _Name = LEASE_NAMESPACE
    images: dict[str, FrameworkImages] = Field(default_factory=dict)
    preparation_image: _Name = _PODS.preparation_image
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = _PODS.image_pull_policy
    gpu_resource: _Name = _PODS.gpu_resource
    user: _Id = _PODS.user
    group: _Id = _PODS.group
    metrics_port: _Port = _PODS.metrics_port
    scrape_annotations: bool = _PODS.scrape_annotations
    network_policy: NetworkPolicy = NetworkPolicy()
    pod_disruption_budget: bool = _PODS.pod_disruption_budget
    safe_to_evict: bool | None = _PODS.safe_to_evict
    shared_memory_size: _Size = _PODS.shared_memory_size
    scratch_size: _Size | None = _PODS.scratch_size
    template_profile: TemplateProfile = _PODS.template_profile
    sampler: SamplerSettings = SamplerSettings()
    restarts: Restarts = Restarts()


SAMPLER = SamplerSettings()
"""The default."""


@dataclass(frozen=True)
class Configuration:
    """The operator's configuration.

    Attributes:
        namespaces: The namespaces whose jobs are run; empty for all.
        lease_namespace: The namespace of the leases of all operators of the cluster.
    """

    namespaces: tuple[str, ...] = ()
    settings: ReconcileSettings = DEFAULTS
    sampler: SamplerSettings = SAMPLER
    lease_namespace: str = LEASE_NAMESPACE


def read(path: Path) -> Configuration:
    """Read a configuration file.

    Raises:
        InvalidConfiguration: It cannot be read, or has an unknown key or value.
    """
    try:
        documents = load(path)
    except UnreadableManifest as error:
        raise InvalidConfiguration(str(error)) from error
    if len(documents) > 1:
        raise InvalidConfiguration(f"{path}: holds {len(documents)} documents; keep one")
    return parse(documents[0], str(path))


def parse(document: Any, source: str) -> Configuration:
    """Parse a configuration document.

    Raises:
        InvalidConfiguration: It has an unknown key or value.
    """
    try:
        file = _File.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        remedy = "; remove it" if first["type"] == "extra_forbidden" else ""
        message = "is not known" if remedy else first["msg"][:1].lower() + first["msg"][1:]
        raise InvalidConfiguration(f"{source}: {place}: {message}{remedy}") from None
    return Configuration(
        file.namespaces, _settings(file, source), file.sampler, file.lease_namespace
    )


def _settings(file: _File, source: str) -> ReconcileSettings:
    restarts = file.restarts
    # The file has the names in lower case.
    known = {framework.lower(): framework for framework in _PODS.images}
    unknown = sorted(file.images.keys() - known.keys())
    if unknown:
        raise InvalidConfiguration(
            f"{source}: images.{unknown[0]}: is no framework; write {' or '.join(known)}"
        )
    same = {name: getattr(file, name) for name in vars(_PODS) if name in _File.model_fields}
    images = {
        known[name]: Images(cpu=images.cpu, gpu=images.gpu) for name, images in file.images.items()
    }
    of_pods = {
        **same,
        "images": {**_PODS.images, **images},
        "network_policy": file.network_policy.enabled,
        "metrics_from": file.network_policy.metrics_from,
    }
    return ReconcileSettings(
        restart_delay=timedelta(seconds=restarts.delay_seconds),
        restart_delay_limit=timedelta(seconds=restarts.delay_limit_seconds),
        disruption_delay=timedelta(seconds=restarts.disruption_delay_seconds),
        disruption_limit=restarts.disruption_limit,
        manifests=replace(_PODS, **of_pods),
    )
