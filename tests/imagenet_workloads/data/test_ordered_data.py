"""Batches as a framework's arrays."""

import time
from pathlib import Path
from typing import Any

import pytest

from imagenet_workloads.data.augmentation import Recipe
from imagenet_workloads.data.batches import ImageBatch, WorkerShare
from imagenet_workloads.data.ordered_data import Training
from imagenet_workloads.dataset import RECORD_IO
from support.image_splits import open_images
from support.pictures import jpeg
from support.reading import ordered_training


def test_a_batch_has_the_cpu_time_in_which_its_arrays_were_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = open_images(tmp_path, RECORD_IO, [jpeg(number, 24, 32) for number in range(10)])
    cpu = 0.0
    monkeypatch.setattr(time, "thread_time", lambda: cpu)

    def convert(batch: ImageBatch) -> tuple[Any, Any]:
        nonlocal cpu
        cpu += 0.25
        return batch.images.copy(), batch.labels

    with ordered_training(records, Recipe((3, 16, 16)), WorkerShare(0, 1, 4), 1) as ordered:
        batches = list(Training(ordered, convert).epoch(3, 1))
    assert [(batch.images, batch.cpu_seconds) for batch in batches] == [(4, 0.25), (2, 0.25)]
    reads = [batch.read for batch in batches if batch.read is not None]
    assert [(read.epoch, read.first, len(read.identities)) for read in reads] == [
        (3, 4, 4),
        (3, 8, 2),
    ]
