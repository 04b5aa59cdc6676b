"""The strategy `parameterServer`: MXNet's distributed kvstores, with servers and a scheduler."""

from __future__ import annotations

from typing import Literal

from imagenet_operator.api.base import Model
from imagenet_operator.api.fields import Replicas, Template
from imagenet_operator.api.strategies.fields import StrategyFields


class Servers(Model):
    """The servers, which hold the parameters."""

    replicas: Replicas = 1
    """The number of servers, which share the parameters."""

    template: Template | None = None
    """A PodTemplateSpec, merged strategically into the pods of the servers and the scheduler."""


class ParameterServer(StrategyFields):
    """Workers push gradients to servers and pull parameters; a scheduler connects them."""

    kv_store: Literal["dist_sync", "dist_device_sync", "dist_async"] = "dist_sync"
    """MXNet's kvstore: dist_sync sums gradients on the host, dist_device_sync first on the GPUs;
    dist_async applies the gradients of each worker immediately."""

    servers: Servers = Servers()
    """The servers."""

    is_elastic = True
    frozen = ("kvStore", "servers.replicas")
    incidental = ("servers",)
    variables = ("DMLC_*", "PORT")
    tuning = ("PS_*",)
