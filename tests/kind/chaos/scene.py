"""What faults act upon: the cluster, its nodes, the operator, the jobs' namespaces.

A fault counts only if its effect was observed, so every action here that breaks something returns
what was seen of it. Requests are repeated while the API server is away, because other faults go on
at the same time.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from kind.chaos.history import History, PodState
from kind.chaos.invariants import Outage, Span
from kind.cluster import Cluster
from kind.conftest import GPUS, OPERATOR
from kind.kubectl import Kubectl, KubectlError, Manifest
from kind.stories.deployment import Operator
from kind.stories.namespace import is_ready

Found = TypeVar("Found")

GPUS_OF_A_NODE = 8

OUTAGE_TAIL_SECONDS = 60.0
"""How long after a node is back its old pods may still be shown as running."""


@dataclass
class Scene:
    """The cluster under faults.

    Attributes:
        cluster: The cluster.
        history: Its states so far.
        random: The choices, by the run's seed.
        outages: Of nodes, so far.
        silences: Of the API server, so far.
    """

    cluster: Cluster
    history: History
    random: random.Random
    outages: list[Outage] = field(default_factory=list)
    silences: list[Span] = field(default_factory=list)

    @property
    def operator(self) -> Operator:
        """The operator's Deployment."""
        return Operator(self.cluster.kubectl.within(OPERATOR), self.cluster)

    def namespace(self, name: str) -> Kubectl:
        """kubectl for a job's namespace."""
        return self.cluster.kubectl.within(name)

    def in_node(self, node: str, *command: str, check: bool = True) -> str:
        """Run a program in a node; return its output."""
        finished = subprocess.run(
            ["docker", "exec", node, *command], capture_output=True, text=True, check=False
        )
        if check and finished.returncode != 0:
            raise KubectlError(f"{node}: {' '.join(command)}: {finished.stderr.strip()}")
        return finished.stdout

    def victims(self) -> list[PodState]:
        """Return the members that run now, of jobs that have not ended."""
        live = [name for name, job in self.history.latest_jobs().items() if not job.has_ended]
        return [
            pod
            for name in live
            for pod in self.history.running(name)
            if pod.attempt is not None and pod.node
        ]

    def victim(self, accept: Callable[[PodState], bool] = lambda pod: True) -> PodState | None:
        """Choose a member that runs now."""
        found = sorted(filter(accept, self.victims()), key=lambda pod: pod.name + pod.namespace)
        return self.random.choice(found) if found else None

    def is_node_ready(self, node: str) -> bool:
        """Whether the API server says that a node is ready."""
        return is_ready(self.cluster.kubectl.get("nodes", node))

    def advertise_gpus(self, node: str) -> None:
        """Let a node have GPUs; a kubelet that starts again forgets them."""
        path = "/" + GPUS.replace("/", "~1")
        operations: list[Manifest] = [
            {"op": "add", "path": f"/status/{kind}{path}", "value": str(GPUS_OF_A_NODE)}
            for kind in ("capacity", "allocatable")
        ]
        self.cluster.kubectl.patch_status("nodes", node, operations)

    def record_outage(self, node: str, start: float) -> None:
        """Record that a node was out of reach until now."""
        self.outages.append(Outage(node, start, time.monotonic() + OUTAGE_TAIL_SECONDS))


def poll(
    condition: Callable[[], Found | None], seconds: float, interval: float = 0.5
) -> Found | None:
    """Return the first result that is neither None nor False; None if there is none in time.

    An API server that does not answer counts as no result.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if found := condition():
                return found
        except (KubectlError, subprocess.CalledProcessError, OSError):
            pass
        time.sleep(interval)
    return None


def restore(action: Callable[[], object], seconds: float = 300) -> None:
    """Undo a fault, however often the API server refuses meanwhile.

    Raises:
        KubectlError: It could not be undone in time.
    """

    def done() -> bool:
        action()
        return True

    if poll(done, seconds, 1.0) is None:
        raise KubectlError("a fault could not be undone")
