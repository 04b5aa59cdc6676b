"""Copies JPEGs in class folders into a dataset of one of the field's libraries.

    .venv-field/bin/python -m benchmarks.field.write webdataset FOLDER INTO

Prints JSON: seconds, and seconds of the processor, without the import of the library. Each library
has its documented writer and fields; none of them changes an image.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.cpu_time import cpu_seconds

SHARDS = 4
# Those that `optimize` starts; the other writers are one process.
CORES = 2

Image = tuple[Path, int]


def webdataset(images: list[Image], into: Path) -> Callable[[], None]:
    """WebDataset's ShardWriter."""
    from webdataset import ShardWriter

    def write() -> None:
        with ShardWriter(f"{into}/%06d.tar", maxcount=-(-len(images) // SHARDS)) as writer:
            for number, (path, label) in enumerate(images):
                writer.write({"__key__": f"{number:08}", "jpg": path.read_bytes(), "cls": label})

    return write


def mosaicml(images: list[Image], into: Path) -> Callable[[], None]:
    """MosaicML Streaming's MDSWriter, with its column for JPEGs."""
    from PIL import Image as Pillow
    from streaming import MDSWriter

    def write() -> None:
        with MDSWriter(out=str(into), columns={"image": "jpeg", "class": "int"}) as writer:
            for path, label in images:
                writer.write({"image": Pillow.open(path), "class": label})

    return write


def litdata(images: list[Image], into: Path) -> Callable[[], None]:
    """Litdata's optimize, with a process for each core."""
    from litdata import optimize

    def write() -> None:
        optimize(
            fn=of_litdata,
            inputs=[(str(path), label) for path, label in images],
            output_dir=str(into),
            chunk_bytes="64MB",
            num_workers=CORES,
            verbose=False,
        )

    return write


def of_litdata(image: tuple[str, int]) -> dict[str, object]:
    """Return what litdata stores of an image; its processes import this function."""
    from PIL import Image as Pillow

    path, label = image
    return {"image": Pillow.open(path), "class": label}


WRITERS = {"webdataset": webdataset, "mosaicml": mosaicml, "litdata": litdata}


def main() -> None:
    """Write one dataset."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("library", choices=WRITERS)
    parser.add_argument("folder", type=Path, help="class folders of JPEGs")
    parser.add_argument("into", type=Path)
    options = parser.parse_args()
    options.into.mkdir(parents=True)
    write = WRITERS[options.library](_images(options.folder), options.into)
    started, cpu = time.monotonic(), cpu_seconds()
    write()
    print(json.dumps({"seconds": time.monotonic() - started, "cpu": cpu_seconds() - cpu}))


def _images(folder: Path) -> list[Image]:
    """Return the images in another order than that of their classes, as training needs them."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    found = [(path, label) for label, one in enumerate(classes) for path in sorted(one.iterdir())]
    return sorted(found, key=lambda image: image[0].name)


if __name__ == "__main__":
    main()
