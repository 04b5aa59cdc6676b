"""A Kubernetes cluster does what every cluster must do: the suite that the local one passes."""

from collections.abc import Iterator

import pytest

from imagenet_operator.clusters.kubernetes.login import from_kubeconfig
from kind.kubectl import Kubectl
from support.cluster_conformance import Conformance
from support.kubernetes_driver import KubernetesDriver, unmanaged_job

IMAGE = "imagenet-workloads-mxnet:0.2.0"


@pytest.fixture
def driver(namespace: Kubectl) -> Iterator[KubernetesDriver]:
    namespace.apply(unmanaged_job())
    found = KubernetesDriver(IMAGE)
    found.follow(from_kubeconfig(namespace.kubeconfig), namespace.namespace)
    yield found
    found.close()


class TestKubernetesCluster(Conformance):
    """Driven by the fixture above."""
