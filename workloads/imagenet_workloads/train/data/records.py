"""RecordIO images through MXNet's ImageRecordIter, which decodes and augments in C++.

Its ways that matter here: with an index it shuffles over the whole of a rank's part, by its seed; a
part is the same in every epoch; `round_batch` fills the last batch from the part's beginning, and
without it the last batch is filled with zeros that are not reported as padding.
"""

import itertools
import logging
from collections.abc import Iterator
from typing import Any

import mxnet as mx

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.data.interface import Batch
from imagenet_workloads.train.data.parts import batches_per_epoch, seed_of, share
from imagenet_workloads.train.data.record_files import RecordFiles
from imagenet_workloads.train.options.groups import AugmentationOptions

_log = logging.getLogger(__name__)


class Reader:
    """What training and validation share of ImageRecordIter's settings."""

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        batch_size: int,
        mean: tuple[float, float, float],
        std: tuple[float, float, float],
        threads: int,
        gpu: int | None = None,
    ) -> None:
        """Take what stays the same.

        Args:
            image_shape: channels, height, width.
            batch_size: images.
            mean: red, green, blue in 0..255, subtracted.
            std: likewise, divides.
            threads: that decode; MXNet takes no more than half of the machine's cores.
            gpu: whose pinned memory batches are put into; None without GPUs.
        """
        self.batch_size = batch_size
        self._settings: dict[str, Any] = {
            "data_shape": image_shape,
            "batch_size": batch_size,
            "label_width": 1,
            "preprocess_threads": threads,
            "device_id": -1 if gpu is None else gpu,
            "verbose": False,
        }
        for colour, centre, scale in zip("rgb", mean, std, strict=True):
            self._settings |= {f"mean_{colour}": centre, f"std_{colour}": scale}

    def open(self, files: RecordFiles, part: int, parts: int, **more: Any) -> mx.io.DataIter:
        """Open one part of the records."""
        return mx.io.ImageRecordIter(
            path_imgrec=";".join(str(record) for record in files.records),
            path_imgidx=str(files.index),
            part_index=part,
            num_parts=parts,
            **self._settings,
            **more,
        )


class RecordTraining:
    """Training images; implements `TrainingData`."""

    def __init__(
        self,
        reader: Reader,
        files: RecordFiles,
        rank: int,
        ranks: int,
        seed: int,
        together: int,
        augmentation: dict[str, Any],
    ) -> None:
        """Plan the epochs.

        Args:
            reader: how.
            files: what.
            rank: of this worker.
            ranks: how many workers.
            seed: of order and augmentation.
            together: batches that make one update.
            augmentation: arguments of ImageRecordIter.

        Raises:
            InputError: too few images for so many workers.
        """
        if share(files.images, ranks - 1, ranks) == 0:
            raise InputError(
                f"{files.images} training images are too few for {ranks} workers: take fewer"
            )
        self.images = files.images
        self.batches_per_epoch = batches_per_epoch(files.images, ranks, reader.batch_size, together)
        self._reader, self._files = reader, files
        self._rank, self._ranks, self._seed = rank, ranks, seed
        self._augmentation = augmentation

    def epoch(self, number: int, first_batch: int) -> Iterator[Batch]:
        """Give an epoch's batches from `first_batch` on, decided by the seed and the number.

        Those before are read and dropped: ImageRecordIter cannot begin in the middle.
        """
        if first_batch:
            _log.info("reads past %d batches of epoch %d", first_batch, number)
        batches = itertools.chain.from_iterable(
            self._once(number, lap) for lap in itertools.count()
        )
        return itertools.islice(batches, first_batch, self.batches_per_epoch)

    def _once(self, epoch: int, lap: int) -> Iterator[Batch]:
        """Give this worker's part once.

        A new iterator each time, since only a new one obeys a seed. Parts go round the workers by
        epoch, so that each sees all images.
        """
        part = (self._rank + epoch) % self._ranks
        seed = seed_of(self._seed, epoch, lap)
        source = self._reader.open(
            self._files,
            part,
            self._ranks,
            shuffle=True,
            round_batch=True,
            seed=seed,
            seed_aug=seed,
            **self._augmentation,
        )
        for batch in source:
            yield Batch(batch.data[0], batch.label[0], self._reader.batch_size)


class RecordValidation:
    """Validation images, as they are but for a central crop; implements `ValidationData`."""

    def __init__(self, reader: Reader, files: RecordFiles, resize: int) -> None:
        """Take `resize`, the shorter edge in pixels before the crop; 0 is as packed."""
        self.images = files.images
        self._reader, self._files = reader, files
        self._resize = {"resize": resize} if resize else {}

    def batches(self, rank: int, ranks: int) -> Iterator[Batch]:
        """Give one rank's batches, in the order of the records."""
        left = share(self.images, rank, ranks)
        if left == 0:
            return
        source = self._reader.open(
            self._files, rank, ranks, shuffle=False, round_batch=False, **self._resize
        )
        for batch in source:
            images = min(left, self._reader.batch_size)
            left -= images
            yield Batch(batch.data[0], batch.label[0], images)


def augmentation_arguments(
    options: AugmentationOptions, pad: int, fill_value: int
) -> dict[str, Any]:
    """Translate our options into ImageRecordIter's arguments."""
    arguments: dict[str, Any] = {
        "rand_crop": options.random_crop,
        "rand_mirror": options.random_mirror,
        "random_resized_crop": options.random_resized_crop,
        "random_h": options.max_random_h,
        "random_s": options.max_random_s,
        "random_l": options.max_random_l,
        "max_aspect_ratio": options.max_random_aspect_ratio,
        "max_rotate_angle": options.max_random_rotate_angle,
        "max_shear_ratio": options.max_random_shear_ratio,
        "max_random_scale": options.max_random_scale,
        "min_random_scale": options.min_random_scale,
        "max_random_area": options.max_random_area,
        "min_random_area": options.min_random_area,
        "brightness": options.brightness,
        "contrast": options.contrast,
        "saturation": options.saturation,
        "pca_noise": options.pca_noise,
        "pad": pad,
        "fill_value": fill_value,
    }
    if options.min_random_aspect_ratio is not None:
        arguments["min_aspect_ratio"] = options.min_random_aspect_ratio
    return arguments
