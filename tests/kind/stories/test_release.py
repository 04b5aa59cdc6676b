"""Upgrade and uninstall of the chart, and another definition, while jobs run; then removal.

The commands are those of docs/install.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kind.cluster import Cluster
from kind.kubectl import NotFoundError
from kind.stories.deployment import Operator
from kind.stories.jobs import played, trained
from kind.stories.namespace import StoryNamespace
from kind.stories.release import Release
from kind.stories.terminal import open_terminal
from support import chart
from support.pages import blocks

INSTALL = (chart.REPOSITORY / "docs" / "install.md").read_text()
DEFINITION = "imagenetjobs.imagenet.dev"

NEWER_FIELDS = {
    "spec": "dataset.verify runPolicy.startDeadlineSeconds training.compile training.deterministic"
    " training.labelSmoothing training.optimizer.schedule training.precision training.reader"
    " training.workers.cache training.workers.elastic training.workers.minReplicas",
    "status": "consecutiveDisruptions consecutiveFailures dataset.decision model progressedAttempt"
    " reason startErrors time training.boundWorkers training.checkpointEpoch"
    " training.checkpointEverySeconds training.dataWait training.eta training.expectsResult"
    " training.finishedEpochs training.loopCpuSeconds training.memberGroups training.rank0Pod"
    " training.seconds training.stragglers training.unsavedSeconds training.workerChanges"
    " training.workers",
}
"""Fields of every training job that the definition of 0.1.0 lacks."""


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


def older(definition: dict[str, Any]) -> dict[str, Any]:
    """Return what 0.1.0 had in the place of a definition, as far as a training job can tell."""
    made: dict[str, Any] = json.loads(json.dumps(definition), object_hook=without_rules)
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part, paths in NEWER_FIELDS.items():
        for path in paths.split():
            *parents, last = (part, *path.split("."))
            holder = schema
            for name in parents:
                holder = holder["properties"][name]
            del holder["properties"][last]
    return made


def without_rules(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out the rules of a schema, which name fields that are gone."""
    return {name: value for name, value in found.items() if name != "x-kubernetes-validations"}


def test_another_definition_loses_nothing_of_a_job_that_trains(
    digits_story: StoryNamespace, release: Release, cluster: Cluster
) -> None:
    story = digits_story
    present = story.kubectl.get("customresourcedefinitions", DEFINITION)
    del present["metadata"]["resourceVersion"]
    held = "/epoch-000[24]-[^/]*$"
    story.kubectl.apply(trained(epochs=6, hold_at={"worker": held}))
    story.wait_until_held("worker", "epoch-0002")
    story.wait_for_job(lambda status: "time" in status)
    before = {pod["metadata"]["uid"] for pod in story.pods()}

    try:
        cluster.kubectl("replace", "--filename=-", given=json.dumps(older(present)))
        story.wait_for_job(lambda status: "time" not in status)
        story.release((story.data / "held-worker").read_text().split()[1])
        story.wait_until_held("worker", "epoch-0004")
        # Written by the operator, and pruned.
        status = story.wait_for_job(lambda status: status["training"].get("epoch", 0) >= 3)
        assert "finishedEpochs" not in status["training"]
    finally:
        cluster.kubectl("replace", "--filename=-", given=json.dumps(present))
    assert {pod["metadata"]["uid"] for pod in story.pods()} == before
    story.release()

    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert status["time"] and status["training"]["finishedEpochs"] == "6/6"
    assert {pod["metadata"]["uid"] for pod in story.pods(role="worker")} <= before
    written = story.result(status)
    assert (written["epochs"], written.get("resumedFrom")) == (6, None)


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
