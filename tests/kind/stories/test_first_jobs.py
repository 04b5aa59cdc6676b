"""The first job of a new user, by the commands of the README.

Its claims are made by the cluster's default StorageClass, which gives each to one node only, as
most clusters' do. `test_helm_test` has the commands of the chart's notes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kind.cluster import Cluster
from kind.stories.jobs import Manifest
from kind.stories.namespace import ROLE, StoryNamespace, mounts
from kind.stories.release import Release
from kind.stories.terminal import Terminal, open_terminal
from support import chart
from support.pages import blocks
from support.processes import wait_until

README = (chart.REPOSITORY / "README.md").read_text()
WITH_DATA = {"index", "pack", "seal", "worker"}
"""The roles whose pods mount the dataset's claim."""


@pytest.fixture
def terminal(story: StoryNamespace, cluster: Cluster, tmp_path: Path) -> Terminal:
    """A shell for the story's namespace."""
    return open_terminal(story.kubectl, cluster.environment.programs["helm"], tmp_path)


def test_the_readme_leads_to_a_trained_model(
    story: StoryNamespace, release: Release, terminal: Terminal
) -> None:
    commands, shown = blocks(README, "## On a cluster")
    *before, watch = commands
    # As it comes, with none of the values that the other stories have.
    release.uninstall()

    for command in before:
        terminal.type(command)
    status, printed = watched(story, terminal, watch, "digits-kubernetes")

    assert status["training"]["epoch"] == 9  # of 10, from 0
    assert status["training"]["accuracy"]["validation"] >= 0.95
    check_claim(story, "digits-kubernetes")
    assert failed_starts(story) == []
    assert printed[0].split() == shown[0].split()
    assert end_of(printed) == end_of(shown)


def watched(
    story: StoryNamespace, terminal: Terminal, watch: str, job: str
) -> tuple[Manifest, list[str]]:
    """Watch a job by a line that is typed, to its success; return its status and what is shown."""
    with terminal.beside(watch) as printed:
        status = story.wait_for_condition("Succeeded", job)
        wait_until(lambda: successes(printed.read_text()), f"{watch} shows the end")
        return status, printed.read_text().splitlines()


def successes(shown: str) -> list[str]:
    """Return the lines that show a success, and are whole."""
    # A line that is being written can be seen in part.
    whole, _, _ = shown.rpartition("\n")
    return [line for line in whole.splitlines() if "Succeeded" in line]


def end_of(shown: list[str]) -> list[str]:
    """Return of the first line that shows a success what is the same on every machine."""
    cells = next(line.split() for line in shown if "Succeeded" in line)
    # Without speed, accuracy and age.
    name, phase, network, workers, epoch, _, _, restarts, _ = cells
    return [name, phase, network, workers, epoch, restarts]


def check_claim(story: StoryNamespace, job: str) -> None:
    """See that a job's claim was made for one node, and that all pods that use it were there."""
    claim = story.kubectl.get("persistentvolumeclaims", f"{job}-dataset")["spec"]
    assert (claim["storageClassName"], claim["accessModes"]) == ("standard", ["ReadWriteOnce"])
    pods = [pod for pod in story.pods(job=job) if mounts(pod, f"{job}-dataset")]
    assert {pod["metadata"]["labels"][ROLE] for pod in pods} == WITH_DATA
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 1


def failed_starts(story: StoryNamespace) -> list[str]:
    """Return what the kubelet said of startup probes that failed: a good run has none of it.

    At its end a member may refuse a readiness probe that comes between its server and its exit.
    A connection that is refused at the start is left out: on a busy machine a program may need
    longer than the probe's first delay until it listens.
    """
    said = [event["message"] for event in story.kubectl.all("events")]
    return [
        message
        for message in said
        if message.startswith("Startup probe failed") and "connection refused" not in message
    ]
