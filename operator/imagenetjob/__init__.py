"""Jobs from Python: submit, follow and read ImageNetJobs, on a cluster and on this machine.

    from imagenetjob import Client

    client = Client(namespace="vision")
    client.submit("job.yaml")
    client.wait("resnet50", timeout=86400)

`AsyncClient` is the same for programs that await. A job may be a file, a manifest, or an
`ImageNetJob` of the `models`, which are those of the resource.
"""

from typing import TYPE_CHECKING

from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.sdk.blocking import Client, LocalClient
from imagenet_operator.sdk.errors import Forbidden, JobEnded, NotFound, Rejected, Timeout
from imagenet_operator.sdk.interface import (
    JobEvent,
    JobList,
    Jobs,
    LogLine,
    Progress,
    Removal,
    Selection,
    Transferred,
)
from imagenet_spec.errors import ImageNetJobError, Problem
from imagenet_spec.resource import ImageNetJob
from imagenetjob import models

if TYPE_CHECKING:
    from imagenet_operator.clusters.kubernetes.login import NoConnection
    from imagenet_operator.sdk.cluster import AsyncClient

__all__ = [
    "AsyncClient",
    "Client",
    "ClusterError",
    "Forbidden",
    "ImageNetJob",
    "ImageNetJobError",
    "JobEnded",
    "JobEvent",
    "JobList",
    "Jobs",
    "LocalClient",
    "LogLine",
    "NoConnection",
    "NotFound",
    "Problem",
    "Progress",
    "Rejected",
    "Removal",
    "Selection",
    "Timeout",
    "Transferred",
    "models",
]


def __getattr__(name: str) -> object:
    # Loaded when it is asked for: the API client takes half a second.
    if name == "AsyncClient":
        from imagenet_operator.sdk.cluster import AsyncClient

        return AsyncClient
    if name == "NoConnection":
        from imagenet_operator.clusters.kubernetes.login import NoConnection

        return NoConnection
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
