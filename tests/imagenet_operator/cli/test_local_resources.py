"""What `imagenetctl run` takes from the annotations of a manifest."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.cli import local_resources
from imagenet_operator.cli.local_resources import LocalResources
from imagenet_operator.clusters.interface import LocalError
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.job import LOCAL_PATH, LOCAL_WEIGHTS
from imagenet_spec.validate import parse


def job(annotations: dict[str, str], **model: Any) -> ImageNetJob:
    """A job with a claim of images, and annotations."""
    network = {"network": "resnet", "numLayers": 18, **model}
    training = {"framework": "PyTorch", "strategy": {"single": {}}, "model": network}
    return parse(
        {
            "apiVersion": "imagenet.dev/v1alpha1",
            "kind": "ImageNetJob",
            "metadata": {"name": "photos", "annotations": annotations},
            "spec": {
                "dataset": {
                    "source": {"volume": {"claimName": "photos-images", "path": "."}},
                    "volume": {"size": "1Gi"},
                },
                "training": training | {"batchSize": 8, "epochs": 1},
            },
        }
    )


def resources(tmp_path: Path, *options: str) -> LocalResources:
    """The resources of the options of `run`."""
    parser = argparse.ArgumentParser()
    local_resources.add_options(parser)
    return local_resources.from_options(
        parser.parse_args(["--workdir", str(tmp_path / "work"), "--gpus", "0", *options])
    )


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """The place of a manifest, beside a folder of images and a file of weights."""
    for name in ("jobs", "photos", "others"):
        (tmp_path / name).mkdir()
    (tmp_path / "weights.pth").write_bytes(b"weights")
    return tmp_path / "jobs" / "job.yaml"


def test_images_are_relative_to_the_manifest(tmp_path: Path, manifest: Path) -> None:
    found = local_resources.apply_annotations(
        job({LOCAL_PATH: "../photos"}), str(manifest), resources(tmp_path)
    )
    assert found.volumes.folder("photos-images") == tmp_path / "photos"


def test_volume_precedes(tmp_path: Path, manifest: Path) -> None:
    given = resources(tmp_path, "--volume", f"photos-images={tmp_path / 'others'}")
    found = local_resources.apply_annotations(job({LOCAL_PATH: "../photos"}), str(manifest), given)
    assert found.volumes.folder("photos-images") == tmp_path / "others"


def test_weights_are_copied_to_the_volume_of_the_results(tmp_path: Path, manifest: Path) -> None:
    wanted = job({LOCAL_WEIGHTS: "../weights.pth"}, pretrained="pretrained/weights.pth")
    given = resources(tmp_path)
    copied = given.volumes.path("photos-dataset") / "pretrained" / "weights.pth"
    for content in (b"weights", b"changed"):
        (tmp_path / "weights.pth").write_bytes(content)
        local_resources.apply_annotations(wanted, str(manifest), given)
        assert copied.read_bytes() == content


@pytest.mark.parametrize(
    ("annotations", "model", "facts"),
    [
        ({LOCAL_PATH: "../photo"}, {}, (LOCAL_PATH, "photo is not a folder", "--volume")),
        ({LOCAL_WEIGHTS: "../none.pth"}, {"pretrained": "a.pth"}, (LOCAL_WEIGHTS, "none.pth")),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path,
    manifest: Path,
    annotations: dict[str, str],
    model: dict[str, str],
    facts: tuple[str, ...],
) -> None:
    with pytest.raises(LocalError) as error:
        local_resources.apply_annotations(
            job(annotations, **model), str(manifest), resources(tmp_path)
        )
    for fact in facts:
        assert fact in str(error.value)
