"""Upgrade and uninstall of the chart while jobs run, then removal of everything.

The commands are those of docs/install.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kind.cluster import Cluster
from kind.kubectl import NotFoundError
from kind.stories.deployment import Operator
from kind.stories.jobs import played
from kind.stories.namespace import StoryNamespace
from kind.stories.release import Release
from kind.stories.terminal import open_terminal
from support import chart
from support.pages import blocks

INSTALL = (chart.REPOSITORY / "docs" / "install.md").read_text()
DEFINITION = "imagenetjobs.imagenet.dev"


def columns(cluster: Cluster) -> list[str]:
    """The columns of `kubectl get` for jobs, in the definition on the cluster."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DEFINITION}"
    (version,) = json.loads(cluster.kubectl.raw(path))["spec"]["versions"]
    return [column["name"] for column in version["additionalPrinterColumns"]]


def remove_first_column(cluster: Cluster) -> None:
    """Make the definition on the cluster lack something, like one of an older version."""
    removed = {"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}
    patch = f"--patch={json.dumps([removed])}"
    cluster.kubectl("patch", "customresourcedefinition", DEFINITION, "--type=json", patch)


@contextmanager
def restored_columns(cluster: Cluster) -> Iterator[None]:
    """Check that the block replaces an older definition by the present one."""
    shown = columns(cluster)
    remove_first_column(cluster)
    assert columns(cluster) == shown[1:]
    yield
    assert columns(cluster) == shown


def test_upgrade_and_uninstall_keep_jobs_and_removal_keeps_claims(
    story: StoryNamespace, operator: Operator, release: Release, cluster: Cluster, tmp_path: Path
) -> None:
    terminal = open_terminal(story.kubectl, cluster.environment.programs["helm"], tmp_path)
    upgrade, stop = blocks(INSTALL, "## Upgrade")
    uninstall, remove_all = blocks(INSTALL, "## Uninstall")
    story.volume("story-dataset", "standard")
    story.kubectl.apply(played(volume={"size": "1Gi"}, behaviour={"worker": "hold"}))
    story.wait_for_attempt(0)
    before = {pod["metadata"]["uid"] for pod in story.pods()}

    values = release.values()
    with restored_columns(cluster):
        for command in stop:
            terminal.type(command)
        terminal.type("\n".join(upgrade))
    assert release.values() == values
    # Another configuration replaces the operator's pod.
    release.upgrade("--set=pods.podDisruptionBudget=true")
    assert {pod["metadata"]["uid"] for pod in story.pods()} == before

    terminal.type("\n".join(uninstall))
    operator.wait_until_gone()
    assert {pod["metadata"]["uid"] for pod in story.pods()} == before
    assert story.job()["status"]["phase"] == "Running"
    story.release(folder="../story-dataset")

    release.upgrade()
    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert {pod["metadata"]["uid"] for pod in story.pods(role="worker")} <= before

    for command in remove_all:
        terminal.type(command)
    operator.wait_until_gone()
    story.wait_for_no_children()
    with pytest.raises(NotFoundError):
        story.job()
    claim = story.kubectl.get("persistentvolumeclaims", "story-dataset")
    assert (claim["status"]["phase"], claim["metadata"].get("deletionTimestamp")) == ("Bound", None)
