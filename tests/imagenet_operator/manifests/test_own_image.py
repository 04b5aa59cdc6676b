"""The example of a program of one's own runs in what the builders give it, as a real process."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.api import load, parse
from imagenet_operator.cli import files
from imagenet_operator.clusters.errors import Unsupported
from imagenet_operator.clusters.local import pods, preflight
from imagenet_operator.manifests import preview
from imagenet_operator.manifests.settings import DEFAULTS
from support.pod_subset import REPOSITORY

Manifest = dict[str, Any]
EXAMPLE = REPOSITORY / "examples" / "own-image.yaml"
PAGE = (REPOSITORY / "docs" / "own-image.md").read_text()
KEY = "0123456789abcdef0123456789abcdef"


def members() -> list[Manifest]:
    (document,) = load(EXAMPLE)
    job = files.as_stored(parse(document))
    built = preview.everything(job, status=preview.stand_in(job, KEY), attempt=2)
    return [item for item in built if item["kind"] == "Pod"]


def workers() -> list[Manifest]:
    return [pod for pod in members() if "-worker-" in pod["metadata"]["name"]]


def run(pod: Manifest, volume: Path) -> str:
    """Run a pod's program as a container would; what it prints."""
    variables = pods.environment(
        pod,
        pods.Surroundings(
            environment={"PATH": os.environ["PATH"]},
            paths={"/data": volume, "/scratch": volume},
            address="127.1.2.3",
            peer=lambda pod, service: None,
            gpus=(),
            node="this-machine",
        ),
    )
    done = subprocess.run(
        pods.command(pod, variables), env=variables, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_script_finds_the_dataset_its_place_and_where_to_write(tmp_path: Path) -> None:
    dataset = tmp_path / "datasets" / KEY
    dataset.mkdir(parents=True)
    for name in ("train-00000.rec", "train-00001.rec", "val-00000.rec"):
        (dataset / name).touch()

    said = [run(pod, tmp_path) for pod in workers()]

    meeting = "meets the others at own-image-r2-rendezvous-0.own-image-r2:9091"
    assert [text.splitlines() for text in said] == [
        [f"worker {index} of 2", meeting, "reads 2 shards"] for index in range(2)
    ]
    (results,) = tmp_path.glob("jobs/own-image-*/attempts/r2")
    assert [(results / f"worker-{index}.txt").read_text() for index in range(2)] == said


def test_a_local_run_says_that_it_cannot() -> None:
    (document,) = load(EXAMPLE)
    with pytest.raises(Unsupported, match=r"cannot have the image 'busybox:1\.36'; leave `image`"):
        preflight.needs(parse(document), DEFAULTS)


def test_the_page_names_every_variable_of_the_example() -> None:
    given = {item["name"] for pod in workers() for item in pod["spec"]["containers"][0]["env"]}
    ours = {name for name in given if name.startswith(("IMAGENET_", "POD_"))}
    # The hash of the fields that are trained ties our own checkpoints to a job.
    assert {name for name in ours if f"`{name}`" not in PAGE} == {"IMAGENET_SPEC_HASH"}
