"""RecordIO images through MXNet's ImageRecordIter, which decodes and augments in C++.

Its properties that matter here:
- With an index it shuffles a rank's whole part by its seed. A part is the same in every epoch.
- `round_batch` fills the last batch from the beginning of the part. Without it the last batch is
  filled with zeros, which are not reported as padding.
- Batches that an iterator holds when it is deleted are never freed, and every epoch has a new
  iterator. So `prefetch_buffer` limits it to the batch in use (others are still decoded ahead), and
  at its end it holds none.
- The next batch overwrites the memory of the last one. MXNet first waits for the operations in its
  engine that read it, so a batch is safe for operations that were started before.
"""

import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import mxnet as mx
from mxnet.base import MXNetError

from imagenet_spec.program.train import AugmentationOptions
from imagenet_workloads.data.order import batches_per_epoch, seed_of, share
from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.dataset import damaged
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet.record_files import RecordFiles

_log = logging.getLogger(__name__)

# In the errors of the OpenCV with which MXNet decodes. They do not say which image it is.
_OPENCV = "OpenCV("
_NO_MEMORY = "Insufficient memory"

# Images and labels.
_Arrays = tuple[mx.nd.NDArray, mx.nd.NDArray]


class Reader:
    """The settings of ImageRecordIter that training and validation share."""

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        batch_size_per_process: int,
        mean: tuple[float, float, float],
        std: tuple[float, float, float],
        threads: int,
        gpu: int | None = None,
    ) -> None:
        """Take the settings.

        Args:
            image_shape: channels, height, width.
            batch_size_per_process: in images.
            mean: red, green, blue in 0..255, subtracted.
            std: red, green, blue in 0..255, the divisor.
            threads: for decoding; MXNet uses at most half of the machine's cores.
            gpu: the GPU for whose copies batches are in pinned memory; None without GPUs.
        """
        self.batch_size_per_process = batch_size_per_process
        self._settings: dict[str, Any] = {
            "data_shape": image_shape,
            "batch_size": batch_size_per_process,
            "label_width": 1,
            "preprocess_threads": threads,
            "device_id": -1 if gpu is None else gpu,
            # With 0, MXNet would return memory while it fills it.
            "prefetch_buffer": 1,
            "verbose": False,
        }
        for colour, centre, scale in zip("rgb", mean, std, strict=True):
            self._settings |= {f"mean_{colour}": centre, f"std_{colour}": scale}

    def length(self, files: RecordFiles, part: int, parts: int) -> int:
        return -(-share(files.images, part, parts) // self.batch_size_per_process)

    def read(
        self, files: RecordFiles, part: int, parts: int, wanted: int, **more: Any
    ) -> Iterator[_Arrays]:
        """Yield images and labels of the first `wanted` batches of one part of the records.

        InputError: an image cannot be decoded.
        """
        try:
            if wanted < self.length(files, part, parts):
                # An iterator that decodes nothing ahead needs no end. It overwrites its one batch
                # without waiting for readers, so all is copied.
                source = self._open(files, part, parts, ctx="cpu", **more)
                for batch in itertools.islice(source, wanted):
                    images, labels = batch.data[0].copy(), batch.label[0].copy()
                    images.wait_to_read()
                    labels.wait_to_read()
                    yield images, labels
                return
            source = self._open(files, part, parts, **more)
            for number, batch in enumerate(source, start=1):
                if number == wanted:
                    # Only an iterator that has reached its end holds no batch. This batch is not
                    # overwritten, and lives as long as its arrays.
                    next(source, None)
                yield batch.data[0], batch.label[0]
        except MXNetError as error:
            if _OPENCV not in str(error) or _NO_MEMORY in str(error):
                raise
            first, *others = files.records
            place = first.parent if others else first
            raise damaged(place, "an image cannot be decoded") from error

    def _open(self, files: RecordFiles, part: int, parts: int, **more: Any) -> mx.io.DataIter:
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

    ordered_batch = None

    def __init__(
        self,
        reader: Reader,
        files: RecordFiles,
        rank: int,
        ranks: int,
        seed: int,
        accumulation_steps: int,
        augmentation: dict[str, Any],
    ) -> None:
        """Plan the epochs of a rank; the seed decides order and augmentation.

        InputError: too few images for so many workers.
        """
        if share(files.images, ranks - 1, ranks) == 0:
            raise InputError(
                f"{files.images} training images are too few for {ranks} workers; use fewer"
            )
        self.images = files.images
        self.batches_per_epoch = batches_per_epoch(
            files.images, ranks, reader.batch_size_per_process, accumulation_steps
        )
        self._reader, self._files = reader, files
        self._rank, self._ranks, self._seed = rank, ranks, seed
        self._augmentation = augmentation

    def epoch(
        self,
        number: int,
        first_batch: int,
        passed: Callable[[], None] = lambda: None,
        first_image: int = 0,
    ) -> Iterator[Batch]:
        """Return an epoch's batches from `first_batch` on, decided by the seed and the number.

        Earlier batches are read and dropped: ImageRecordIter cannot start in the middle.
        """
        if first_batch:
            _log.info("skipping %d batches of epoch %d", first_batch, number + 1)
        laps = self._laps(number)
        for _ in itertools.islice(laps, first_batch):
            passed()
        return laps

    def _laps(self, epoch: int) -> Iterator[Batch]:
        """Return this worker's part again and again, until the epoch is full.

        Parts rotate among the workers by epoch, so each worker sees all images.
        """
        part = (self._rank + epoch) % self._ranks
        length = self._reader.length(self._files, part, self._ranks)
        for lap, begun in enumerate(range(0, self.batches_per_epoch, length)):
            seed = seed_of(self._seed, epoch, lap)
            # Only a new iterator obeys a seed.
            batches = self._reader.read(
                self._files,
                part,
                self._ranks,
                min(length, self.batches_per_epoch - begun),
                shuffle=True,
                round_batch=True,
                seed=seed,
                seed_aug=seed,
                **self._augmentation,
            )
            for images, labels in batches:
                yield Batch(images, labels, self._reader.batch_size_per_process)


class RecordValidation:
    """Validation images, changed by a central crop only; implements `ValidationData`."""

    def __init__(self, reader: Reader, files: RecordFiles, resize: int) -> None:
        """Take `resize`, the shorter edge in pixels before the crop; 0 keeps the packed size."""
        self.images = files.images
        self._reader, self._files = reader, files
        self._resize = {"resize": resize} if resize else {}

    def batches(self, rank: int, ranks: int) -> Iterator[Batch]:
        left = share(self.images, rank, ranks)
        if left == 0:
            return
        batches = self._reader.read(
            self._files,
            rank,
            ranks,
            self._reader.length(self._files, rank, ranks),
            shuffle=False,
            round_batch=False,
            **self._resize,
        )
        for data, labels in batches:
            images = min(left, self._reader.batch_size_per_process)
            left -= images
            yield Batch(data, labels, images)


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
