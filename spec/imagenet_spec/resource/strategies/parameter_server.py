"""The strategy `parameterServer`: MXNet's distributed kvstores, with servers and a scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from imagenet_spec.resource.base import Model
from imagenet_spec.resource.fields import Replicas, Template
from imagenet_spec.resource.strategies.fields import StrategyFields
from imagenet_spec.strategies import STRATEGIES

if TYPE_CHECKING:
    KvStore = str
else:
    KvStore = Literal[STRATEGIES["parameterServer"].kv_stores]


class Servers(Model):
    """The servers, which hold the parameters."""

    replicas: Replicas = 1
    """The number of servers, which share the parameters."""

    template: Template | None = None
    """A PodTemplateSpec, merged strategically into the pods of the servers and the scheduler."""


class ParameterServer(StrategyFields):
    """Workers push gradients to servers and pull parameters; a scheduler connects them."""

    kv_store: KvStore = "dist_sync"
    """MXNet's kvstore: dist_sync sums gradients on the host, dist_device_sync first on the GPUs;
    dist_async applies the gradients of each worker immediately."""

    servers: Servers = Servers()
    """The servers."""

    frozen = ("kvStore", "servers.replicas")
    incidental = ("servers",)
