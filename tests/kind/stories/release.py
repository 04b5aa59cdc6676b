"""The chart on the cluster, as stories find and change it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from kind.cluster import Cluster
from support import chart

VALUES = Path(__file__).parents[1] / "values.yaml"


@dataclass(frozen=True)
class Release:
    """The release of the chart.

    Attributes:
        cluster: Where it is installed.
    """

    cluster: Cluster

    def upgrade(self, *options: str) -> None:
        """Install it, or change its values to those of the stories and these options."""
        self._helm(
            *("upgrade", "--install", chart.RELEASE, str(chart.FOLDER)),
            *("--create-namespace", "--wait", "--timeout=300s", f"--values={VALUES}", *options),
        )
        # Helm does not wait for the last replica, which may be unavailable during an update.
        kubectl = self.cluster.kubectl.within(chart.NAMESPACE)
        kubectl("rollout", "status", f"deployment/{chart.RELEASE}", "--timeout=300s")

    def uninstall(self) -> None:
        """Uninstall it, and wait until its operator is gone."""
        self._helm("uninstall", chart.RELEASE, "--wait", "--timeout=300s")

    def values(self) -> str:
        """Return the values that it has beside the chart's own."""
        return self._helm("get", "values", chart.RELEASE)

    def notes(self) -> str:
        """Return the chart's notes."""
        return self._helm("get", "notes", chart.RELEASE)

    def _helm(self, *arguments: str) -> str:
        program = self.cluster.environment.programs["helm"]
        where = (f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={chart.NAMESPACE}")
        ended = subprocess.run(
            [program, *where, *arguments], check=True, stdout=subprocess.PIPE, text=True
        )
        print(ended.stdout)
        return ended.stdout
