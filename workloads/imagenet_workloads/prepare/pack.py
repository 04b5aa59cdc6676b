"""`imagenet-pack`: writes one planned shard, or all of them, unless they are complete.

One thread writes in the order of the plan. Other threads read and transcode small batches of
images, because each hand-over between threads has a cost. So the bytes do not depend on the number
of threads, nor memory on the number of images.

One image of a server or bucket takes milliseconds to arrive, most of them spent waiting, so many
are read ahead of their use at the same time. The plan is shuffled: a source that is read by large
blocks, as Parquet by row groups, would read a block for each image. So the images of its shard are
read once in the order of the source, into an unnamed file on the dataset's volume.
"""

import gc
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import cv2
import simplejpeg

from imagenet_workloads import dataset as datasets
from imagenet_workloads import files
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare import image_metadata, shards
from imagenet_workloads.prepare import plan as plans
from imagenet_workloads.prepare.bounding_boxes import upright
from imagenet_workloads.prepare.codecs import choose
from imagenet_workloads.prepare.codecs.codec import Codec, Pixels, Recipe
from imagenet_workloads.prepare.codecs.perceptual_hash import perceptual_hashes
from imagenet_workloads.prepare.plan import WRITER_VERSION, Plan, PlannedImage, PlannedShard
from imagenet_workloads.prepare.shards import ChannelStatistics, ImageBoxes, Sidecar, SkippedImage
from imagenet_workloads.prepare.source import Source
from imagenet_workloads.prepare.stores.blob import DamagedImageError, map_in_order, readable
from imagenet_workloads.prepare.transcode import read_image, transcode
from imagenet_workloads.records import image_list
from imagenet_workloads.records.format import HashedFile, ShardWriter, StoredImage
from imagenet_workloads.records.image_list import ListedImage
from imagenet_workloads.telemetry.preparation import PreparationRecorder

_log = logging.getLogger(__name__)

# Images in flight or read for each thread.
_AHEAD = 2
# Images in a batch: one by one, the hand-over would cost a tenth of the work.
_BATCH = 16
# Damaged images beyond the allowed ones that are named before a shard is given up.
_MOST_NAMED = 1000
# Extra threads: while one waits for the disk or the interpreter, another works.
_SPARE = 1
_SECONDS_BETWEEN_LINES = 10.0
# Images that are hashed together: one batch would take four times as long for each. 2 MB.
_HASHED = 256
# Images whose decoding is measured: few, so that it takes less than a hundredth of a shard's time.
_SAMPLE = 16

_Spooled = tuple[int, int] | Exception


class ImageRead(NamedTuple):
    """A planned image and its bytes; `bytes` raises what `read_image` raises."""

    image: PlannedImage
    bytes: Callable[[], bytes]


def read_ahead(source: Source, images: Iterable[PlannedImage]) -> Generator[ImageRead]:
    """Yield the images in their order; those of a remote source may still be on their way."""
    if source.reads_at_once == 1:
        for image in images:
            yield ImageRead(image, partial(_read, source, image))
        return
    waiting: deque[ImageRead] = deque()
    pool = ThreadPoolExecutor(source.reads_at_once, thread_name_prefix="read")
    try:
        for image in images:
            waiting.append(ImageRead(image, pool.submit(_read, source, image).result))
            if len(waiting) >= source.reads_at_once * _AHEAD:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    # The last images are still on their way.
    pool.shutdown(wait=False)


def read_in_order(
    source: Source, images: Iterable[PlannedImage], folder: Path
) -> Generator[ImageRead]:
    """Yield the images of a shard in their order, after all of them are read.

    Raises:
        InputError: the source has changed since it was listed.
        StorageError: the volume is full.
    """
    planned = list(images)
    order = sorted(range(len(planned)), key=lambda number: planned[number].name)
    places: list[_Spooled] = [(0, 0)] * len(planned)
    end = 0
    with files.unnamed_file(folder) as file:
        read = partial(_read_or_error, source)
        found = map_in_order(read, (planned[n] for n in order), source.reads_at_once)
        for number, data in zip(order, found, strict=True):
            if isinstance(data, Exception):
                places[number] = data
                continue
            with files.storage_errors(folder):
                file.write(data)
            places[number] = (end, len(data))
            end += len(data)
        with files.storage_errors(folder):
            file.flush()
        _log.info("%s: read %d images, %.1f MiB", source.where, len(planned), end / 2**20)
        for image, place in zip(planned, places, strict=True):
            if isinstance(place, Exception):
                yield ImageRead(image, partial(_result, place))
                continue
            begin, length = place
            # Read here: the file is closed before the last images are taken.
            yield ImageRead(image, partial(_result, os.pread(file.fileno(), length, begin)))


def _read(source: Source, image: PlannedImage) -> bytes:
    return read_image(source, image.name, image.offset, image.size)


def _read_or_error(source: Source, image: PlannedImage) -> bytes | Exception:
    """The bytes of an image, or the error that its reader handles."""
    try:
        return _read(source, image)
    except (DamagedImageError, OSError) as error:
        return error


def _result(data: bytes | Exception) -> bytes:
    if isinstance(data, Exception):
        raise data
    return data


@dataclass(frozen=True)
class PackRequest:
    """The options of a pack run."""

    data: Path
    key: str
    open_source: Callable[[Fields], Source]  # opens a source again, from its entry in the plan
    shard: int | None  # number of the shard, training shards first; None for all shards
    threads: int


class _Damaged(NamedTuple):
    image: PlannedImage
    reason: str


class _DecodeSample:
    """A few packed images, with which pack measures how many of them one core decodes in a second.

    Training decodes the same images. Its reader crops first, so it decodes somewhat more. They are
    the first of the first shard, which is a random choice: records are shuffled.
    """

    def __init__(self) -> None:
        self._jpegs: list[bytes] = []

    def offer(self, images: Iterable[StoredImage]) -> None:
        if len(self._jpegs) < _SAMPLE:
            self._jpegs += [image.jpeg for image in images]
            del self._jpegs[_SAMPLE:]

    def images_per_second(self) -> float | None:
        """The images divided by the CPU time that decoding them takes; None without any."""
        started = time.thread_time()
        for jpeg in self._jpegs:
            simplejpeg.decode_jpeg(jpeg, fastdct=False, fastupsample=False)
        seconds = time.thread_time() - started
        return len(self._jpegs) / seconds if seconds > 0 else None


class _Origin(NamedTuple):
    """Where the image of a record came from, for the list of images."""

    image: PlannedImage
    size: tuple[int, int]
    thumbnail: Pixels


class _Batch(NamedTuple):
    """The results of a batch of images, their colour statistics, and the origin of each record."""

    done: list[StoredImage | _Damaged]
    statistics: ChannelStatistics
    origins: list[_Origin]


def run(request: PackRequest, recorder: PreparationRecorder) -> float | None:
    """Write the chosen shards that are not complete.

    Returns:
        The images of the dataset that one core decodes in a second; None if no shard was written.

    Raises:
        InputError: There is no such plan or shard, the source has changed, or too many of its
            images are damaged.
        StorageError: The volume cannot be written, or is full.
    """
    plan = plans.read(request.data, request.key)
    dataset = plans.folder_of(request.data, request.key)
    wanted = plan.shards
    if request.shard is not None:
        if request.shard >= len(wanted):
            raise InputError(
                f"there is no shard {request.shard}: the dataset {plan.key} has {len(wanted)}, "
                "from 0"
            )
        wanted = (wanted[request.shard],)
    recorder.planned(sum(shard.images for shard in wanted))
    if files.exists(dataset / datasets.FILE_NAME):
        _log.info("%s is already sealed", dataset)
        missing: list[PlannedShard] = []
    else:
        files.make_folder(dataset)
        files.sweep(dataset, files.ABANDONED_SECONDS)
        missing = [shard for shard in wanted if not shards.is_whole(dataset, shard)]
    for shard in wanted:
        if shard not in missing:
            _log.info("%s is already complete", shard.name)
            recorder.packed(shard.images, 0)
    return _pack_all(request, plan, dataset, missing, recorder) if missing else None


def _pack_all(
    request: PackRequest,
    plan: Plan,
    dataset: Path,
    missing: list[PlannedShard],
    recorder: PreparationRecorder,
) -> float | None:
    if plan.writer.version != WRITER_VERSION:
        raise InputError(
            f"the plan of {plan.key} is for version {plan.writer.version} of the writer, and this "
            f"is {WRITER_VERSION}; run imagenet-index again"
        )
    # Otherwise OpenCV would start its own threads for each of ours.
    cv2.setNumThreads(1)
    # Freeze the imported modules, so that garbage collections do not scan them.
    gc.freeze()
    codec = choose(plan.writer.codec)
    allowed = shards.read_limit(dataset, plan.images())
    sample = _DecodeSample()
    sources = {
        split: request.open_source(Fields(plan.sources[split], f"sources.{split}"))
        for split in sorted({shard.split for shard in missing})
    }
    try:
        too_many: list[tuple[str, list[SkippedImage]]] = []
        for shard in missing:
            work = _Work(sources[shard.split], plan, codec)
            packing = _Packing(dataset, plan, shard, allowed, recorder, sample)
            packing.write(work, request.threads)
            if packing.has_too_many:
                too_many.append((shard.name, packing.skipped))
            if packing.is_hopeless:
                break
    finally:
        for source in sources.values():
            source.close()
    if too_many:
        # Of all shards at once: each run that names a few more costs as long as this one.
        damaged = [image for _, skipped in too_many for image in skipped]
        where = f"{' and '.join(name for name, _ in too_many)} alone"
        raise shards.too_many(damaged, plan.images(), allowed, where)
    speed = sample.images_per_second()
    if speed is not None:
        recorder.decoded(speed)
        _log.info("one core decodes %.0f of these images a second", speed)
    return speed


class _Work:
    def __init__(self, source: Source, plan: Plan, codec: Codec) -> None:
        self._source = source
        self._recipe = Recipe(plan.options.resize, plan.options.quality)
        self._codec = codec
        self._classes = plan.classes
        self._words = plan.class_words

    def reads(self, images: Iterator[PlannedImage], folder: Path) -> Generator[ImageRead]:
        if self._source.reads_in_order:
            return read_in_order(self._source, images, folder)
        return read_ahead(self._source, images)

    def batch(self, images: list[ImageRead]) -> _Batch:
        samples: list[Pixels] = []
        origins: list[_Origin] = []
        done = [self._one(image, samples, origins) for image in images]
        return _Batch(done, ChannelStatistics.of(samples), origins)

    def _one(
        self, read: ImageRead, samples: list[Pixels], origins: list[_Origin]
    ) -> StoredImage | _Damaged:
        image = read.image
        try:
            content = read.bytes()
            packed = transcode(content, self._recipe, self._codec)
        except DamagedImageError as error:
            return _Damaged(image, str(error))
        except PermissionError as error:
            return _Damaged(image, f"may not be read: {error.strerror}")
        except OSError as error:
            raise WorkloadError(
                f"{readable(image.name)}: cannot be read: {error.strerror}"
            ) from error
        samples.append(packed.sample)
        origins.append(_Origin(image, packed.original, packed.thumbnail))
        class_name = self._classes[image.label]
        # A resize keeps fractions, and an EXIF orientation turns them.
        boxes = image.boxes and upright(image.boxes, image_metadata.orientation(content))
        return StoredImage(
            key=image.key,
            label=image.label,
            class_name=class_name,
            class_words=self._words.get(class_name, class_name),
            name=image.name.rpartition("/")[2].encode("utf-8", "surrogateescape"),
            height=packed.height,
            width=packed.width,
            jpeg=packed.jpeg,
            boxes=boxes,
        )


class _Packing:
    """The writing of one shard.

    Seal checks all shards together, but one shard may already have too many damaged images. Then
    it is not written, and read to its end, so that the log names all of them.
    """

    def __init__(
        self,
        dataset: Path,
        plan: Plan,
        shard: PlannedShard,
        allowed: int,
        recorder: PreparationRecorder,
        sample: _DecodeSample,
    ) -> None:
        self._dataset = dataset
        self._plan = plan
        self._shard = shard
        self._allowed = allowed
        self._recorder = recorder
        self._sample = sample
        self.skipped: list[SkippedImage] = []
        self._boxes: list[ImageBoxes] = []
        self._origins: list[_Origin] = []
        self._per_class = [0] * len(plan.classes)
        self._statistics = ChannelStatistics()
        self._images = 0
        self._start = self._last_line = time.monotonic()

    @property
    def has_too_many(self) -> bool:
        return len(self.skipped) > self._allowed

    @property
    def is_hopeless(self) -> bool:
        """Whether so many are that to name the rest would help nobody."""
        return len(self.skipped) > self._allowed + _MOST_NAMED

    def write(self, work: _Work, threads: int) -> None:
        with ExitStack() as stack:
            new_files = [
                stack.enter_context(files.NewFile(self._dataset / name))
                for name in self._shard.files
            ]
            record, index, images_file = (new.file for new in new_files)
            writer = self._shard.format.writer(record, index)
            listing = HashedFile(images_file)
            images = plans.read_images(self._dataset, self._shard)
            reads = stack.enter_context(closing(work.reads(images, self._dataset)))
            batches = iter(lambda: list(islice(reads, _BATCH)), [])
            done = stack.enter_context(closing(map_in_order(work.batch, batches, threads + _SPARE)))
            for batch in done:
                self._take(writer, listing, batch)
                new_files[0].write_behind()
                if self.is_hopeless:
                    break
            if self.has_too_many:
                return
            self._list(listing)
            for new in new_files:
                new.finish()
            self._publish(writer, listing, new_files)

    def _take(self, writer: ShardWriter, listing: HashedFile, batch: _Batch) -> None:
        whole: list[StoredImage] = []
        for image in batch.done:
            if isinstance(image, _Damaged):
                skipped = image.image
                _log.warning("skipped %s: %s", readable(skipped.name), image.reason)
                class_name = self._plan.classes[skipped.label]
                self.skipped.append(SkippedImage(skipped.name, class_name, image.reason))
                self._recorder.skipped()
            else:
                whole.append(image)
                self._per_class[image.label] += 1
                if image.boxes:
                    self._boxes.append(ImageBoxes(image.key, image.boxes))
        if self.has_too_many:
            return
        before = writer.bytes
        with files.storage_errors(self._dataset / self._shard.record):
            writer.append(whole)
        self._origins += batch.origins
        if len(self._origins) >= _HASHED:
            self._list(listing)
        self._statistics += batch.statistics
        self._sample.offer(whole)
        self._recorder.packed(len(whole), writer.bytes - before)
        self._images += len(batch.done)
        now = time.monotonic()
        if now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            _log.info(
                "%s: %d of %d images, %.0f a second, %d skipped",
                self._shard.name,
                self._images,
                self._shard.images,
                self._images / (now - self._start),
                len(self.skipped),
            )

    def _list(self, listing: HashedFile) -> None:
        hashes = perceptual_hashes([origin.thumbnail for origin in self._origins])
        lines = []
        for (image, (height, width), _), hash in zip(self._origins, hashes, strict=True):
            listed = ListedImage(image.name, f"{hash:016x}", width, height, image.label)
            lines.append(image_list.to_line(listed))
        self._origins.clear()
        with files.storage_errors(self._dataset / self._shard.image_list):
            listing.write(b"".join(lines))

    def _publish(
        self, writer: ShardWriter, listing: HashedFile, new_files: list[files.NewFile]
    ) -> None:
        if shards.is_whole(self._dataset, self._shard):
            _log.info("another run finished %s", self._shard.name)
            return
        record_sha256, index_sha256 = writer.sha256()
        sidecar = Sidecar(
            key=self._plan.key,
            records=writer.records,
            bytes=writer.bytes,
            record_sha256=record_sha256,
            index_sha256=index_sha256,
            per_class=tuple(self._per_class),
            statistics=self._statistics,
            skipped=tuple(self.skipped),
            boxes=tuple(self._boxes),
            image_list_sha256=listing.sha256(),
        )
        try:
            for new in new_files:
                new.publish()
            with files.storage_errors(self._dataset):
                files.sync(self._dataset)
            files.write_file(self._dataset / self._shard.sidecar, sidecar.to_json().encode())
        except FileNotFoundError:
            # Another run with this key may have sealed the dataset and deleted temporary files.
            if not shards.is_whole(self._dataset, self._shard):
                raise WorkloadError(
                    f"{self._dataset}: a temporary file there has vanished"
                ) from None
        _log.info("%s: %d images", self._shard.name, writer.records)
