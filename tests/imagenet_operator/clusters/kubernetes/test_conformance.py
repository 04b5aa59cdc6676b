"""A Kubernetes cluster does with objects what every cluster must do.

The API server is the fake one, which runs no pods; tests/kind has the whole suite.
"""

from collections.abc import Iterator

import pytest

from imagenet_operator.clusters.kubernetes.login import Connection
from support.cluster_conformance import ObjectConformance
from support.fake_api_server import FakeApiServer
from support.kubernetes_driver import KubernetesDriver, unmanaged_job


@pytest.fixture
def driver() -> Iterator[KubernetesDriver]:
    found = KubernetesDriver("any")
    server = FakeApiServer()
    # The operator itself neither patches Services, deletes claims nor reads events.
    server.verbs["", "services"] |= {"patch"}
    server.verbs["", "persistentvolumeclaims"] |= {"delete"}
    server.verbs["", "events"] |= {"list"}
    found.run(server.__aenter__())
    job = unmanaged_job()
    job["metadata"]["namespace"] = "vision"
    found.run(server.add(job))
    found.follow(Connection(server.url), "vision")
    yield found
    found.stop()
    found.run(server.__aexit__())
    found.close()


class TestKubernetesCluster(ObjectConformance):
    """Driven by the fixture above."""
