"""evaluation.json and its thumbnails: what the exported model says of the validation images.

Rank 0 writes them beside the model after the final validation. The images that are shown are read
from the records again, by their positions in the split.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import simplejpeg

from imagenet_spec.evaluation import (
    MISTAKES,
    SUSPECTS,
    Evaluation,
    ShownImage,
    find_mistakes,
    find_samples,
    find_suspects,
    to_json,
)
from imagenet_spec.names import EVALUATION_FILE, THUMBNAILS_FOLDER
from imagenet_workloads import files
from imagenet_workloads.data.jpeg import JpegImage, Region, Size
from imagenet_workloads.data.worker_data import Data
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.records.image_list import ListedImage
from imagenet_workloads.records.split import Records
from imagenet_workloads.train.predictions import Rows

_log = logging.getLogger(__name__)

THUMBNAIL_EDGE = 160
"""The most pixels of a thumbnail's longer edge."""

MOST_THUMBNAIL_BYTES = 2_000_000
"""Of all thumbnails together."""

_QUALITY = 80
# A read of a bucket takes as long as some requests.
_READERS = 8
_COLOURS = {1: ("GRAY", "Gray"), 3: ("RGB", "420")}


def write_evaluation(
    folder: Path, rows: Rows | None, job: str, epoch: int, data: Data
) -> Evaluation | None:
    """Write the thumbnails and then evaluation.json; return its content.

    `rows` are in the order of the validation split. Without them an earlier run's evaluation.json
    is deleted. `epoch` counts the finished epochs of the model. StorageError: the folder cannot be
    written.
    """
    if rows is None:
        (folder / EVALUATION_FILE).unlink(missing_ok=True)
        return None
    classes = data.classes or tuple(map(str, range(data.class_count)))
    evaluation = Evaluation(
        job,
        epoch,
        classes,
        [data.class_words.get(name, "") for name in classes],
        *(rows[name].tolist() for name in rows.dtype.names or ()),
    )
    chosen = (
        find_mistakes(evaluation)[:MISTAKES],
        find_suspects(evaluation)[:SUSPECTS],
        find_samples(evaluation),
    )
    indices = sorted({index for some in chosen for index in some})
    shown = {index: ShownImage(index) for index in indices}
    if indices and data.validation_records is not None:
        try:
            records = data.validation_records()
        except WorkloadError as error:
            _log.warning("evaluation.json has no thumbnails: %s", error)
        else:
            shown |= _find(folder, evaluation, indices, records, data.inputs.image_shape[0])
    mistakes, suspects, samples = ([shown[index] for index in some] for some in chosen)
    evaluation = replace(evaluation, mistakes=mistakes, suspects=suspects, samples=samples)
    text = to_json(evaluation)
    files.write_output(folder / EVALUATION_FILE, lambda path: path.write_text(text))
    return evaluation


def _find(
    folder: Path, evaluation: Evaluation, indices: Sequence[int], records: Records, channels: int
) -> dict[int, ShownImage]:
    """Return the images whose records can be read, with their names, and write their thumbnails.

    Without the others a trained model is not lost.
    """

    def make(index: int) -> bytes | Exception:
        try:
            (record,) = records.read(range(index, index + 1))
            image = records.parse(index, record)
            if image.label != evaluation.labels[index]:
                raise ValueError("the reader has another order than the records")
            return thumbnail(image.encoded, channels)
        except (OSError, ValueError, WorkloadError, cv2.error) as error:
            return error

    with ThreadPoolExecutor(_READERS) as readers:
        found = dict(zip(indices, readers.map(make, indices), strict=True))
    names = _names(records, [index for index, made in found.items() if isinstance(made, bytes)])
    thumbnails: dict[str, bytes] = {}
    shown: dict[int, ShownImage] = {}
    size = 0
    for index, made in found.items():
        if not isinstance(made, bytes):
            _log.warning("validation image %d has no thumbnail: %s", index, made)
            continue
        file = None
        size += len(made)
        if size <= MOST_THUMBNAIL_BYTES:
            file = f"validation-{index:08}.jpg"
            thumbnails[file] = made
        shown[index] = ShownImage(index, names.get(index), file)

    def write(temporary: Path) -> None:
        temporary.mkdir()
        for name, content in thumbnails.items():
            (temporary / name).write_bytes(content)

    files.write_output(folder / THUMBNAILS_FOLDER, write)
    return shown


def _names(records: Records, indices: Sequence[int]) -> dict[int, str]:
    places = {index: records.file_of(index) for index in indices}
    shards = list(dict.fromkeys(file for file, _ in places.values()))

    def read(file: Path) -> list[ListedImage]:
        try:
            return records.listed(file) or []
        except WorkloadError as error:
            _log.warning("%s", error)
            return []

    with ThreadPoolExecutor(_READERS) as readers:
        listed = dict(zip(shards, readers.map(read, shards), strict=True))
    return {
        index: listed[file][place].name
        for index, (file, place) in places.items()
        if place < len(listed[file])
    }


def thumbnail(encoded: bytes, channels: int) -> bytes:
    """Return a small JPEG of an image's pixels, without metadata; ValueError if it is damaged."""
    image = JpegImage(encoded, channels)
    height, width = image.size
    scale = min(1.0, THUMBNAIL_EDGE / max(height, width))
    target = Size(max(1, round(height * scale)), max(1, round(width * scale)))
    pixels = image.crop(Region(0, 0, height, width), target)
    colours, subsampling = _COLOURS[channels]
    made: bytes = simplejpeg.encode_jpeg(
        np.ascontiguousarray(pixels), _QUALITY, colours, subsampling
    )
    return made
