"""Reads a dataset as one of the field's libraries documents it, or with its fastest decoder.

    .venv-field/bin/python -m benchmarks.field.read webdataset-default FOLDER --crop random

Reads two epochs of batches of normalized float32, as a network on CPUs takes them, and prints
JSON of the second: images/s, and ms of the processor an image with all processes.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.cpu_time import cpu_seconds

EDGE = 224
# ImageNet's, as each library's examples have them.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RANDOM, RESIZED = "random", "resized"
# Samples in memory that WebDataset shuffles, as its examples do.
SHUFFLED = 1000

Batches = Iterable[tuple[Any, Any]]
Decode = Callable[[Any], Any]


class Options(argparse.Namespace):
    """The command line.

    Attributes:
        reader: one of READERS.
        folder: of its dataset.
        crop: RANDOM or RESIZED.
        cores: processes or threads that decode.
        batch: images of a batch.
    """

    reader: str
    folder: Path
    crop: str
    cores: int
    batch: int


def _of_pictures(options: Options) -> Decode:
    """Return torchvision's transforms of Pillow's images, as in its examples for ImageNet."""
    from torchvision import transforms

    crop = transforms.RandomCrop if options.crop == RANDOM else transforms.RandomResizedCrop
    return transforms.Compose(  # type: ignore[no-any-return]
        [
            crop(EDGE),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )


def _of_tensors(options: Options) -> Decode:
    """Return torchvision's transforms of bytes, which are converted last."""
    import torch
    from torchvision.transforms import v2

    crop = v2.RandomCrop if options.crop == RANDOM else v2.RandomResizedCrop
    return v2.Compose(  # type: ignore[no-any-return]
        [
            crop(EDGE),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )


def _fast(options: Options) -> Decode:
    """Return what decodes a JPEG's bytes by torchvision and libjpeg-turbo, and transforms it."""
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg

    transform = _of_tensors(options)

    def decode(encoded: bytes) -> Any:
        data = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
        return transform(decode_jpeg(data, ImageReadMode.RGB))

    return decode


def _files(options: Options, *, fast: bool) -> Batches:
    """Torchvision's ImageFolder and PyTorch's DataLoader."""
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    if fast:
        decode = _fast(options)
        dataset = ImageFolder(options.folder, decode, loader=lambda path: Path(path).read_bytes())
    else:
        dataset = ImageFolder(options.folder, _of_pictures(options))
    return DataLoader(  # type: ignore[no-any-return]
        dataset, options.batch, shuffle=True, num_workers=options.cores, persistent_workers=fast
    )


def _webdataset(options: Options, *, fast: bool) -> Batches:
    """WebDataset and its WebLoader."""
    import webdataset

    shards = sorted(map(str, options.folder.glob("*.tar")))
    dataset = webdataset.WebDataset(shards, shardshuffle=len(shards)).shuffle(SHUFFLED)
    if fast:
        dataset = dataset.to_tuple("jpg", "cls").map_tuple(_fast(options), int)
    else:
        dataset = dataset.decode("pil").to_tuple("jpg", "cls")
        dataset = dataset.map_tuple(_of_pictures(options), int)
    return webdataset.WebLoader(  # type: ignore[no-any-return]
        dataset.batched(options.batch),
        batch_size=None,
        num_workers=options.cores,
        persistent_workers=fast,
    )


def _litdata(options: Options) -> Batches:
    """Litdata's StreamingDataset, which decodes by torchvision, and its StreamingDataLoader."""
    from litdata import StreamingDataLoader, StreamingDataset

    transform = _of_tensors(options)

    def changed(sample: dict[str, Any]) -> tuple[Any, Any]:
        return transform(sample["image"]), sample["class"]

    dataset = StreamingDataset(str(options.folder), shuffle=True, transform=changed)
    return StreamingDataLoader(  # type: ignore[no-any-return]
        dataset, batch_size=options.batch, num_workers=options.cores
    )


def _mosaicml(options: Options, *, fast: bool) -> Batches:
    """MosaicML's StreamingDataset and PyTorch's DataLoader."""
    from streaming import StreamingDataset
    from streaming.base.format.mds import encodings
    from torch.utils.data import DataLoader

    if fast:
        # Its column for JPEGs gives Pillow's images; the bytes are decoded instead.
        encodings.JPEG.decode = lambda _, data: data
    decode = _fast(options) if fast else _of_pictures(options)

    class Images(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, at: int) -> tuple[Any, Any]:
            sample = super().__getitem__(at)
            return decode(sample["image"]), sample["class"]

    dataset = Images(local=str(options.folder), shuffle=True, batch_size=options.batch)
    return DataLoader(  # type: ignore[no-any-return]
        dataset, options.batch, num_workers=options.cores, persistent_workers=fast
    )


def _dali(options: Options, *, fast: bool) -> Batches:
    """DALI's pipeline for ImageNet on CPUs, and its iterator for PyTorch."""
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIClassificationIterator, LastBatchPolicy

    @pipeline_def(batch_size=options.batch, num_threads=options.cores, device_id=None)  # type: ignore[untyped-decorator]
    def images() -> tuple[Any, Any]:
        encoded, labels = fn.readers.file(
            file_root=str(options.folder), random_shuffle=True, name="images"
        )
        more = {"device": "cpu", "output_type": types.RGB, "use_fast_idct": fast}
        if options.crop == RESIZED:
            decoded = fn.decoders.image_random_crop(encoded, **more)
            cropped = fn.resize(decoded, size=(EDGE, EDGE), antialias=not fast)
        else:
            at = {name: fn.random.uniform(range=(0, 1)) for name in ("crop_pos_x", "crop_pos_y")}
            # It decodes the rows of the crop alone.
            cropped = fn.decoders.image_crop(encoded, crop=(EDGE, EDGE), **at, **more)
        pixels = fn.crop_mirror_normalize(
            cropped,
            dtype=types.FLOAT,
            output_layout="CHW",
            mean=[255 * one for one in MEAN],
            std=[255 * one for one in STD],
            mirror=fn.random.coin_flip(),
        )
        return pixels, labels

    iterator = DALIClassificationIterator(
        images(),
        reader_name="images",
        last_batch_policy=LastBatchPolicy.PARTIAL,
        auto_reset=True,
    )

    class Epochs:
        def __iter__(self) -> Any:
            return ((found["data"], found["label"]) for (found,) in iterator)

    return Epochs()


def _default(read: Callable[..., Batches]) -> Callable[[Options], Batches]:
    return lambda options: read(options, fast=False)


def _fastest(read: Callable[..., Batches]) -> Callable[[Options], Batches]:
    return lambda options: read(options, fast=True)


READERS: dict[str, Callable[[Options], Batches]] = {
    "torchvision-default": _default(_files),
    "torchvision-fastest": _fastest(_files),
    "webdataset-default": _default(_webdataset),
    "webdataset-fastest": _fastest(_webdataset),
    "litdata-default": _litdata,
    "mosaicml-default": _default(_mosaicml),
    "mosaicml-fastest": _fastest(_mosaicml),
    "dali-default": _default(_dali),
    "dali-fastest": _fastest(_dali),
}


def main() -> None:
    """Read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--crop", choices=(RANDOM, RESIZED), required=True)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args(namespace=Options())
    batches = READERS[options.reader](options)
    count = 0
    for _ in range(2):
        started, cpu, count = time.monotonic(), cpu_seconds(), 0
        for images, labels in batches:
            assert images.shape[1:] == (3, EDGE, EDGE)
            count += len(labels)
        seconds = time.monotonic() - started
    print(
        json.dumps(
            {
                "images": count,
                "speed": count / seconds,
                "cpu": (cpu_seconds() - cpu) / count * 1000,
            }
        )
    )


if __name__ == "__main__":
    main()
