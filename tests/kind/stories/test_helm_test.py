"""`helm test` by the chart's notes: a job that succeeds, and one whose failure is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from kind.cluster import Cluster
from kind.kubectl import Kubectl
from kind.stories.namespace import StoryNamespace
from kind.stories.release import Release
from kind.stories.terminal import Terminal, open_terminal
from support import chart

TEST = f"{chart.RELEASE}-test"


@pytest.fixture
def terminal(story: StoryNamespace, cluster: Cluster, tmp_path: Path) -> Terminal:
    """A shell for the story's namespace."""
    return open_terminal(story.kubectl, cluster.environment.programs["helm"], tmp_path)


@pytest.fixture
def installed(cluster: Cluster) -> Kubectl:
    """kubectl for the namespace of the release."""
    return cluster.kubectl.within(chart.NAMESPACE)


def test_the_notes_of_the_chart_lead_to_a_trained_model(
    cluster: Cluster, installed: Kubectl, terminal: Terminal
) -> None:
    ready, test, listed = commands_of(Release(cluster).notes())

    terminal.type(ready)
    # Helm itself waits for five minutes.
    ended = terminal.ended(f"{test} --timeout 9m")

    assert ended.returncode == 0
    assert " is Succeeded: " in ended.stdout
    terminal.type(listed)
    check_nothing_is_left(installed)
    installed.wait_until("pods", lambda pods: TEST not in pods)


def test_a_job_that_cannot_start_is_explained(
    cluster: Cluster, installed: Kubectl, terminal: Terminal, release: Release
) -> None:
    release.upgrade(
        "--set=pods.preparationImage.repository=localhost:9/no-such-image",
        "--set=tests.timeoutSeconds=90",
    )
    _, test, _ = commands_of(release.notes())

    ended = terminal.ended(test)

    assert ended.returncode != 0
    assert "ImagePullBackOff" in ended.stdout
    assert "localhost:9/no-such-image" in ended.stdout
    check_nothing_is_left(installed)
    assert installed("logs", TEST) in ended.stdout
    installed.delete("pods", TEST)


def check_nothing_is_left(installed: Kubectl) -> None:
    """See that the job, its claim and the rights of the test go."""
    for kind in ("imagenetjobs", "persistentvolumeclaims"):
        installed.wait_until(kind, lambda left: not any(name.startswith("test-") for name in left))
    installed.wait_until("serviceaccounts", lambda accounts: TEST not in accounts)


def commands_of(notes: str) -> list[str]:
    """Return the lines of the chart's notes that are to be typed."""
    return [line.strip() for line in notes.splitlines() if line.startswith("  ")]
