"""The operator's Deployment, which stories kill, stop and scale."""

from __future__ import annotations

from dataclasses import dataclass

from kind.cluster import Cluster
from kind.kubectl import SECONDS, Kubectl, Manifest
from kind.stories.namespace import is_ready


@dataclass(frozen=True)
class Operator:
    """The operator's Deployment.

    Attributes:
        kubectl: For its namespace.
        cluster: Where it runs.
    """

    kubectl: Kubectl
    cluster: Cluster
    selector: str = "app.kubernetes.io/name=imagenet-operator"

    def pods(self) -> list[Manifest]:
        """Return its pods: one for each replica, but around its death."""
        return self.kubectl.all("pods", self.selector)

    def kill(self) -> None:
        """Kill its process, and delete its pod: Kubernetes makes another one at once."""
        pods = self.pods()
        assert pods, "no operator is there"
        for pod in pods:
            # Even a forced deletion sends SIGTERM first, with a grace period.
            self.cluster.kill_program(pod)
            self.kubectl.delete("pods", pod["metadata"]["name"], grace_seconds=0)

    def wait_until_ready(self) -> None:
        """Wait until it is back."""
        self.kubectl.wait_until(
            "pods", lambda pods: any(map(is_ready, pods.values())), selector=self.selector
        )

    def stop(self) -> None:
        """Stop it."""
        self.kubectl("scale", "deployment", "imagenet-operator", "--replicas=0")
        self.wait_until_gone()

    def wait_until_gone(self) -> None:
        """Wait until it does not run any more."""
        self.kubectl.wait_until("pods", lambda pods: not pods, selector=self.selector)

    def start(self, replicas: int = 1) -> None:
        """Let so many run, and wait until all are ready and no others are left."""
        self.kubectl("scale", "deployment", "imagenet-operator", f"--replicas={replicas}")
        self.kubectl(
            "rollout", "status", "deployment/imagenet-operator", f"--timeout={SECONDS:.0f}s"
        )
        self.kubectl.wait_until("pods", lambda pods: len(pods) == replicas, selector=self.selector)
