"""Counts the images that the ordered reader decodes."""

import pytest

from imagenet_workloads.data.jpeg import JpegImage
from imagenet_workloads.data.worker_data import TrainingData


def decoded_at_the_end(training: TrainingData, patch: pytest.MonkeyPatch) -> tuple[int, int]:
    """The images of the last batch of an epoch, and those decoded for it by a resumed training."""
    original, sizes = JpegImage.__init__, list[int]()

    def counted(image: JpegImage, encoded: bytes, channels: int) -> None:
        sizes.append(len(encoded))
        original(image, encoded, channels)

    patch.setattr(JpegImage, "__init__", counted)
    (batch,) = training.epoch(0, training.batches_per_epoch - 1)
    return batch.images, len(sizes)
