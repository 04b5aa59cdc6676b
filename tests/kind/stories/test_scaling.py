"""A sweep over numbers of workers, typed where only the API server can be reached."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import yaml

from kind.cluster import Cluster
from kind.stories.jobs import from_archive, trained
from kind.stories.namespace import StoryNamespace
from kind.stories.terminal import Terminal, open_terminal

POINTS = {"1": "story-w1-parameter-server", "2": "story-w2-parameter-server"}


def test_a_sweep_goes_on_where_it_was_left(
    story: StoryNamespace, cluster: Cluster, tmp_path: Path
) -> None:
    terminal = open_terminal(story.kubectl, cluster.environment.programs["helm"], tmp_path)
    story.make_archive()
    job = trained(epochs=3, dataset=from_archive())
    (terminal.folder / "job.yaml").write_text(yaml.safe_dump(job))

    sweep(terminal, cluster, "1")
    (first,) = table(terminal)
    sweep(terminal, cluster, "1,2")
    again, second = table(terminal)

    assert again == first
    assert first["strategy"] == second["strategy"] == "parameterServer"
    for line, workers in ((first, "1"), (second, "2")):
        status = story.wait_for_condition("Succeeded", POINTS[workers])
        assert line["workers"] == workers
        accuracy = status["training"]["accuracy"]["validation"]
        assert float(line["top1"]) == pytest.approx(accuracy, abs=1e-4)
        assert float(line["images_per_second"]) > 0
    assert float(second["speedup"]) > 0
    assert (terminal.folder / "work" / "scaling" / "story.png").stat().st_size > 0
    jobs = {job["metadata"]["name"] for job in story.kubectl.all("imagenetjobs")}
    assert jobs == set(POINTS.values())


def sweep(terminal: Terminal, cluster: Cluster, workers: str) -> None:
    """Run the sweep, on the cluster of the terminal's kubeconfig."""
    options = f"--workers {workers} --context kind-{cluster.name} --workdir work"
    terminal.type(f".venv/bin/imagenetctl scale job.yaml {options}")


def table(terminal: Terminal) -> list[dict[str, str]]:
    """The lines that the sweep has written."""
    with (terminal.folder / "work" / "scaling" / "story.csv").open() as file:
        return list(csv.DictReader(file))
