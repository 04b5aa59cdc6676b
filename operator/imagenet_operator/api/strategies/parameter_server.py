"""The strategy `parameterServer`: MXNet's distributed kvstores, with servers and a scheduler."""

from __future__ import annotations

from typing import Literal

from imagenet_operator.api.base import Model
from imagenet_operator.api.fields import Replicas, Template
from imagenet_operator.api.strategies.fields import StrategyFields


class Servers(Model):
    """The processes that hold the parameters."""

    replicas: Replicas = 1
    """How many servers share the parameters."""

    template: Template | None = None
    """A PodTemplateSpec, merged strategically into the pods of the servers and the scheduler."""


class ParameterServer(StrategyFields):
    """Workers push gradients to servers and pull parameters; a scheduler introduces them."""

    kv_store: Literal["dist_sync", "dist_device_sync", "dist_async"] = "dist_sync"
    """MXNet's kvstore: dist_sync adds gradients up on the host, dist_device_sync on the GPUs first;
    dist_async applies each worker's as it comes."""

    servers: Servers = Servers()
    """The servers."""

    frozen = ("kvStore", "servers.replicas")
    incidental = ("servers",)
    variables = ("DMLC_*", "PORT")
    tuning = ("PS_*",)
