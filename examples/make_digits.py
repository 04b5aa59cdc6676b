"""Writes a small real image archive in ImageNet's own form: a tar of tars of JPEGs.

The images are the 1,797 handwritten digits that scikit-learn ships, grey, 8 by 8 pixels, enlarged.
Of one class only a few are taken, so that a job on this archive shows how rare classes are dropped.
The same versions of scikit-learn and OpenCV give the same bytes.

    python examples/make_digits.py build/digits/digits.tar
    tar -tf build/digits/digits.tar        # 0.tar, 1.tar, … as n01440764.tar, … in ImageNet's
"""

import argparse
import io
import os
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

Image = npt.NDArray[np.uint8]

# scikit-learn's digits count ink in 0..16 for each of their 8 by 8 cells.
INK = 16.0


def enlarged(digit: npt.NDArray[np.float64], size: int) -> Image:
    """The digit, `size` pixels a side, 0 for paper to 255 for ink."""
    cells = (digit * (255 / INK)).astype(np.float32)
    smooth = cv2.resize(cells, (size, size), interpolation=cv2.INTER_CUBIC)
    return np.clip(np.rint(smooth), 0, 255).astype(np.uint8)


def jpeg(image: Image) -> bytes:
    """The image as a grey JPEG."""
    done, content = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 95])
    if not done:
        raise RuntimeError("OpenCV cannot write JPEG")
    return content.tobytes()


def images(size: int, rare_class: int, rare_images: int) -> dict[int, list[bytes]]:
    """The JPEGs of each class, of the rare one only the first few."""
    digits = load_digits()
    classes: dict[int, list[bytes]] = {label: [] for label in range(10)}
    for digit, label in zip(digits.images, digits.target.tolist(), strict=True):
        if label != rare_class or len(classes[label]) < rare_images:
            classes[label].append(jpeg(enlarged(digit, size)))
    return classes


def tar(members: Iterable[tuple[str, bytes]]) -> bytes:
    """An archive of named contents, with the same bytes on every machine and date."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, member in members:
            # A TarInfo's defaults are owner 0, time 0, mode 0644.
            entry = tarfile.TarInfo(name)
            entry.size = len(member)
            archive.addfile(entry, io.BytesIO(member))
    return content.getvalue()


def inner_tars(classes: dict[int, list[bytes]]) -> Iterator[tuple[str, bytes]]:
    """One inner archive a class, its images named as ImageNet names them."""
    for label, contents in sorted(classes.items()):
        named = ((f"{label}_{number}.JPEG", jpeg) for number, jpeg in enumerate(contents))
        yield f"{label}.tar", tar(named)


def write(path: Path, content: bytes) -> None:
    """Writes a file that is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Write scikit-learn's handwritten digits as a tar of tars of JPEGs."
    )
    parser.add_argument("archive", type=Path, help="the archive to write, such as digits.tar")
    parser.add_argument("--size", type=int, default=28, help="pixels a side (default: %(default)s)")
    parser.add_argument(
        "--rare-class", type=int, choices=range(10), default=9, help="default: %(default)s"
    )
    parser.add_argument(
        "--rare-images", type=int, default=12, help="how many it gets (default: %(default)s)"
    )
    parser.add_argument(
        "--sample", type=Path, help="also write one digit as a separate JPEG, for imagenet-predict"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the archive and says what is in it."""
    parsed = build_parser().parse_args(arguments)
    classes = images(parsed.size, parsed.rare_class, parsed.rare_images)
    write(parsed.archive, tar(inner_tars(classes)))
    count = sum(len(contents) for contents in classes.values())
    print(
        f"{parsed.archive}: {count} images of {len(classes)} classes, "
        f"{len(classes[parsed.rare_class])} of them of class {parsed.rare_class}"
    )
    if parsed.sample is not None:
        label = 0 if parsed.rare_class != 0 else 1
        write(parsed.sample, classes[label][-1])
        print(f"{parsed.sample}: one image of class {label}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
