"""The jobs that are measured, all of one kind of images, and the same training as one types it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from imagenet_operator.scaling import variants
from imagenet_operator.scaling.points import Point, Size

CLAIM = "data"
BATCH = 64
CLASSES = 10
EDGE = 32
# Of each class. An epoch of one worker is a whole number of batches.
TRAINED, VALIDATED = 288, 5
IMAGES = CLASSES * TRAINED

# The options of a job's worker, without data, length, batch and framework; a test compares them.
OPTIONS = (
    *("--network", "resnet", "--num-layers", "20", "--image-shape", f"3,{EDGE},{EDGE}"),
    *("--data-nthreads", "1", "--lr", "0.1", "--lr-step-epochs", ""),
    *("--warmup-epochs", "0", "--random-crop", "0", "--random-mirror", "1"),
)


@dataclass(frozen=True)
class OneProcess:
    """Training in one process, by a framework.

    Attributes:
        strategy: of a job with one worker.
        options: of the program.
    """

    strategy: str
    options: tuple[str, ...]


ONE_PROCESS = {
    "MXNet": OneProcess("single", ("--kv-store", "device")),
    "TensorFlow": OneProcess(
        "mirrored", ("--framework", "TensorFlow", "--distribution-strategy", "mirrored")
    ),
    "PyTorch": OneProcess(
        "single:PyTorch", ("--framework", "PyTorch", "--distribution-strategy", "single")
    ),
}


def point(strategy: str, workers: int, epochs: int, name: str) -> Point:
    """A job in which each worker makes as many steps an epoch as one process alone makes.

    So each worker adds its own images to the dataset, and its own batch to the step. What an epoch
    costs by itself (its reader starts again) then weighs as much with two workers as with one.
    """
    shape = [3, EDGE, EDGE]
    synthetic = {
        "classes": CLASSES,
        "imagesPerClass": workers * TRAINED + VALIDATED,
        "imageShape": shape,
    }
    manifest: dict[str, Any] = {
        "apiVersion": "imagenet.dev/v1alpha1",
        "kind": "ImageNetJob",
        "metadata": {"name": name},
        "spec": {
            "dataset": {
                "source": {"synthetic": synthetic},
                "validation": {"split": {"imagesPerClass": VALIDATED}},
                "preprocessing": {"shards": 2, "minImagesPerClass": 1},
                "volume": {"claimName": CLAIM},
            },
            "training": {
                "strategy": {"single": {}},
                "model": {"network": "resnet", "numLayers": 20, "imageShape": shape},
                "batchSize": BATCH * workers,
                "epochs": epochs,
                "optimizer": {"learningRate": 0.1, "stepEpochs": [], "warmupEpochs": 0},
                "augmentation": {"randomMirror": True},
                "dataThreads": 1,
                "workers": {"replicas": workers},
            },
        },
    }
    return Point(strategy, Size(workers), variants.applied(variants.read(strategy), manifest))


def by_framework(strategies: Sequence[str]) -> dict[str, list[str]]:
    """The strategies of two workers, by the framework that each one's job trains in."""
    found: dict[str, list[str]] = {}
    for strategy in strategies:
        framework = variants.framework_of(point(strategy, 2, 1, "bench").manifest)
        found.setdefault(framework, []).append(strategy)
    return found
