"""The decisions of `imagenetctl init`: from what was found and the machine to a manifest."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from imagenet_operator.cli.commented_yaml import as_text
from imagenet_operator.cli.first_manifest import (
    First,
    Machine,
    Survey,
    Weights,
    decide,
    job_name,
    weights_of,
)
from imagenet_operator.sdk import submission
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.resource.fields import JOB_NAME_MAXIMUM
from imagenet_spec.resource.job import LOCAL_PATH, LOCAL_WEIGHTS

CLASSES = {"cat": 85, "dog": 85, "fox": 85, "owl": 45}
PHOTOGRAPHS = Survey(
    "photos",
    CLASSES,
    bytes=300 << 20,
    said="classFolders",
    sample=300,
    shorter_edge=3000,
    largest_edge=4000,
)
ICONS = replace(PHOTOGRAPHS, shorter_edge=32, largest_edge=32, bytes=300 << 10)
IMAGENET = replace(
    PHOTOGRAPHS,
    classes={f"n{number:08}": 1300 for number in range(1000)},
    validation=50_000,
    bytes=140 << 30,
    is_whole=False,
    shorter_edge=375,
)
ALL = tuple(FRAMEWORKS)
LAPTOP = Machine(2, ("MXNet",))
PYTORCH_LAPTOP = Machine(2, ("PyTorch",))
H100 = Machine(16, ALL, 1, "NVIDIA H100 80GB HBM3")
EIGHT_H100 = Machine(16, ALL, 8, "H100", is_here=False)
SIXTEEN_V100 = Machine(16, ("MXNet",), 16, "V100", is_here=False)
SOURCE = {"volume": {"claimName": "photos-images", "path": "."}}
WEIGHTS = Weights("resnet18.pth", Path("/w/resnet18.pth"), "../w/resnet18.pth", "", "resnet", 18)


def first(survey: Survey, machine: Machine, **given: Any) -> First:
    """The decision, whose manifest must be valid."""
    found = decide(survey, machine, name="photos", source=SOURCE, **given)
    assert submission.problems(found.manifest) == []
    return found


def value(found: First, path: str) -> Any:
    """The value of a field below `spec`; None if it is absent."""
    here: Any = found.manifest["spec"]
    for name in path.split("."):
        here = here.get(name) if isinstance(here, dict) else None
    return here


@pytest.mark.parametrize(
    ("survey", "machine", "given", "expected"),
    [
        # Few photographs on a laptop: a small network, and no class is lost.
        (
            PHOTOGRAPHS,
            LAPTOP,
            {"speed": 300.0},
            {
                "training.framework": "MXNet",
                "training.model": {"network": "resnet", "numLayers": 18, "imageShape": [3, 64, 64]},
                "training.batchSize": 16,
                "training.epochs": 80,
                "training.precision": "float32",
                "training.workers": None,
                "dataset.validation": {"split": {"imagesPerClass": 9}},
                "dataset.preprocessing.minImagesPerClass": 45,
                "dataset.preprocessing.resize": 73,
                "dataset.preprocessing.maxSkippedFraction": None,
                "dataset.preprocessing.shards": 1,
            },
        ),
        # A slow machine trains as long as learning takes.
        (PHOTOGRAPHS, LAPTOP, {"speed": 10.0}, {"training.epochs": 36}),
        (
            ICONS,
            LAPTOP,
            {"speed": 1e6},
            {
                "training.model": {"network": "resnet", "numLayers": 20, "imageShape": [3, 32, 32]},
                "training.epochs": 100,
                "dataset.preprocessing.resize": None,
            },
        ),
        # Large ones among small ones are resized.
        (replace(ICONS, largest_edge=500), LAPTOP, {}, {"dataset.preprocessing.resize": 37}),
        # A source of its own splits, on GPUs.
        (
            IMAGENET,
            EIGHT_H100,
            {},
            {
                "training.framework": "PyTorch",
                "training.strategy": {"distributedDataParallel": {}},
                "training.model.numLayers": 50,
                "training.model.imageShape": [3, 224, 224],
                "training.batchSize": 2048,
                "training.precision": "bfloat16",
                "training.workers": {"replicas": 1, "gpus": 8},
                "dataset.validation": None,
                "dataset.preprocessing.shards": 65,
                "dataset.preprocessing.maxSkippedFraction": 0.01,
                "dataset.volume.accessModes": ["ReadWriteOnce"],
            },
        ),
        (PHOTOGRAPHS, H100, {}, {"training.strategy": {"single": {}}, "training.epochs": 100}),
        # MXNet has no code for this GPU's successors, but for this one.
        (
            IMAGENET,
            SIXTEEN_V100,
            {},
            {
                "training.framework": "MXNet",
                "training.precision": "float16",
                "training.workers": {"replicas": 2, "gpus": 8},
                "training.strategy.parameterServer.kvStore": "dist_device_sync",
                "dataset.volume.accessModes": None,
            },
        ),
        # TensorFlow reads another format.
        (
            PHOTOGRAPHS,
            Machine(2, ("TensorFlow",)),
            {},
            {
                "training.strategy": {"mirrored": {}},
                "training.precision": None,
                "dataset.preprocessing.format": "TFRecord",
            },
        ),
        (
            PHOTOGRAPHS,
            Machine(2, ALL),
            {"weights": WEIGHTS, "speed": 100.0},
            {
                "training.framework": "PyTorch",
                "training.model.numLayers": 18,
                "training.model.imageShape": [3, 128, 128],
                "training.model.pretrained": "pretrained/resnet18.pth",
                "training.epochs": 15,
                "training.optimizer.learningRate": 0.005,
            },
        ),
        (
            PHOTOGRAPHS,
            Machine(2, ALL),
            {"weights": WEIGHTS._replace(network="timm/vit_tiny_patch16_224", num_layers=None)},
            {
                "training.model.network": "timm/vit_tiny_patch16_224",
                "training.model.numLayers": None,
                "training.model.imageShape": [3, 224, 224],
            },
        ),
        # Damaged images may be left out, and a class that has almost none with them.
        (
            replace(
                PHOTOGRAPHS,
                classes={**CLASSES, "rare": 5},
                damaged={"owl": 1, "rare": 2},
                damaged_files=[("owl/1.jpg", "is empty")],
            ),
            LAPTOP,
            {},
            {
                "dataset.preprocessing.minImagesPerClass": 45,
                "dataset.preprocessing.maxSkippedFraction": 0.01,
                "dataset.validation": {"split": {"imagesPerClass": 8}},
            },
        ),
    ],
)
def test_choices(
    survey: Survey, machine: Machine, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = first(survey, machine, **given)
    assert {path: value(found, path) for path in expected} == expected


@pytest.mark.parametrize("gpus", [1, 2, 3, 8, 9, 12, 16, 17, 64])
@pytest.mark.parametrize("frameworks", [("PyTorch",), ("MXNet",), ("TensorFlow",)])
def test_any_number_of_gpus_is_valid(gpus: int, frameworks: tuple[str, ...]) -> None:
    found = first(IMAGENET, Machine(8, frameworks, gpus, "T4", is_here=False))
    workers = value(found, "training.workers")
    assert workers["replicas"] * workers["gpus"] == gpus
    assert workers["gpus"] <= 8


def test_what_is_wrong_with_the_images_is_said() -> None:
    found = first(
        replace(
            PHOTOGRAPHS,
            classes={**CLASSES, "rare": 3},
            damaged={"cat": 1},
            damaged_files=[("cat/1.jpg", "is empty")],
            copies=1,
            copied_files=[["cat/2.jpg", "dog/2.jpg"]],
            conflicts=1,
            warnings=["two layouts fit"],
        ),
        LAPTOP,
    )
    said = "\n".join(found.warnings)
    for fact in ("cat/1.jpg: is empty", "cat/2.jpg = dog/2.jpg", "rare (3)", "two layouts fit"):
        assert fact in said
    assert set(found.warnings) <= set(found.header), "the manifest has them too"


@pytest.mark.parametrize(
    ("survey", "machine", "given", "fact"),
    [
        (replace(PHOTOGRAPHS, classes={"cat": 90, "dog": 4}), LAPTOP, {}, "two classes"),
        (PHOTOGRAPHS, Machine(2, ()), {}, "MXNet or PyTorch or TensorFlow"),
        (PHOTOGRAPHS, LAPTOP, {"weights": WEIGHTS}, "install PyTorch"),
        (PHOTOGRAPHS, Machine(2, ("MXNet",), 1, "H100"), {}, "install PyTorch"),
    ],
)
def test_what_cannot_train_is_refused(
    survey: Survey, machine: Machine, given: dict[str, Any], fact: str
) -> None:
    with pytest.raises(ImageNetJobError, match=fact):
        decide(survey, machine, name="photos", source=SOURCE, **given)


@pytest.mark.parametrize("speed", [None, 123.0])
def test_the_time_of_an_epoch_says_where_it_is_from(speed: float | None) -> None:
    reason = first(PHOTOGRAPHS, LAPTOP, speed=speed).reasons["spec", "training", "epochs"]
    assert ("estimated" in reason) == (speed is None)
    assert ("20 real steps of 123 images/s" in reason) == (speed is not None)


def test_annotations_name_the_files_of_this_machine() -> None:
    found = first(PHOTOGRAPHS, Machine(2, ALL), local_path="../photos", weights=WEIGHTS)
    annotations = found.manifest["metadata"]["annotations"]
    assert annotations == {LOCAL_PATH: "../photos", LOCAL_WEIGHTS: "../w/resnet18.pth"}


def test_the_text_is_the_manifest_with_each_reason_as_a_comment() -> None:
    strange = replace(PHOTOGRAPHS, classes={**CLASSES, "a\nb: #\u202e": 50})
    found = first(strange, H100, local_path="photos: #1")
    text = as_text(found.manifest, found.reasons, found.header)
    assert yaml.safe_load(text) == found.manifest
    comments = " ".join(line.strip(" #") for line in text.splitlines() if line.lstrip()[:1] == "#")
    for reason in found.reasons.values():
        assert reason.replace("\n", "\ufffd").replace("\u202e", "\ufffd") in comments
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("photos", "photos"),
        ("My Photos (2)", "my-photos-2"),
        ("2024", "images-2024"),
        ("Fotos_für_Anna", "fotos-f-r-anna"),
        ("…", "images"),
        ("x" * 99, "x" * JOB_NAME_MAXIMUM),
    ],
)
def test_names_of_jobs(text: str, name: str) -> None:
    assert job_name(text) == name


@pytest.mark.parametrize(
    ("file", "network"),
    [
        ("resnet18-f37072fd.pth", ("resnet", 18)),
        ("vgg16_bn-6c64b313.pth", ("vgg-bn", 16)),
        ("mobilenet_v2-b0353104.pth", ("mobilenet-v2", None)),
        ("models--timm--resnet18.a1_in1k", ("timm/resnet18", None)),
        ("timm--mobilenetv3_small_100-model.safetensors", ("timm/mobilenetv3_small_100", None)),
        ("resnet18_special.pth", None),
        ("weights.pth", None),
    ],
)
def test_networks_of_files(file: str, network: tuple[str, int | None] | None) -> None:
    assert weights_of(file) == network
