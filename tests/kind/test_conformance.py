"""A Kubernetes cluster does what every cluster must do: the suite that the local one passes."""

from collections.abc import Iterator

import pytest

from kind.kubectl import Kubectl
from kind.kubernetes_driver import KubernetesDriver
from support.cluster_conformance import Conformance

IMAGE = "imagenet-workloads-mxnet:0.1.0"


@pytest.fixture
def driver(namespace: Kubectl) -> Iterator[KubernetesDriver]:
    found = KubernetesDriver(namespace, IMAGE)
    yield found
    found.close()


class TestKubernetesCluster(Conformance):
    """Driven by the fixture above."""
