"""`imagenet-digits`: writes a small real image archive in ImageNet's own form, a tar of tars.

The images are the 1,797 handwritten digits of digits.npz, grey, 8 by 8 pixels, enlarged. Of one
class only a few are taken, so that a job on this archive shows how rare classes are dropped. The
same version of OpenCV gives the same bytes.

    imagenet-digits build/digits/digits.tar
    tar -tf build/digits/digits.tar        # 0.tar, 1.tar, … as n01440764.tar, … in ImageNet's

digits.npz holds the test set of "Optical Recognition of Handwritten Digits" by E. Alpaydin and
C. Kaynak (UCI Machine Learning Repository, https://doi.org/10.24432/C50P49, CC BY 4.0), in the
order of scikit-learn: `images`, (1797, 8, 8) of 0..16, and `labels`, (1797,).
"""

import argparse
import io
import sys
import tarfile
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

from imagenet_spec.program import kinds
from imagenet_workloads import files
from imagenet_workloads.process.program import run_program

PROGRAM = "imagenet-digits"

INK = 16
"""The largest value of a pixel in digits.npz."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-digits`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Write handwritten digits as a tar of tars of JPEGs."
    )
    parser.add_argument("archive", type=kinds.path, help="the archive to write, such as digits.tar")
    parser.add_argument("--size", type=int, default=28, help="pixels a side (default: %(default)s)")
    parser.add_argument(
        "--rare-class",
        type=int,
        choices=range(10),
        default=9,
        help="the class with few images (default: %(default)s)",
    )
    parser.add_argument(
        "--rare-images",
        type=int,
        default=12,
        help="the number of images of that class (default: %(default)s)",
    )
    parser.add_argument(
        "--sample",
        type=kinds.path,
        metavar="JPEG",
        help="also write one digit as a separate file, for imagenetctl predict",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-digits`; return the exit code."""
    parsed = build_parser().parse_args(arguments)
    return run_program(PROGRAM, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    classes = _jpegs(parsed.size, parsed.rare_class, parsed.rare_images)
    # One inner archive a class, its images named as ImageNet names them.
    inner = (
        (f"{label}.tar", _tar((f"{label}_{n}.JPEG", jpeg) for n, jpeg in enumerate(jpegs)))
        for label, jpegs in sorted(classes.items())
    )
    _write(parsed.archive, _tar(inner))
    print(
        f"{parsed.archive}: {sum(map(len, classes.values()))} images of {len(classes)} classes, "
        f"{len(classes[parsed.rare_class])} of them of class {parsed.rare_class}"
    )
    if parsed.sample is not None:
        label = 0 if parsed.rare_class != 0 else 1
        _write(parsed.sample, classes[label][-1])
        print(f"{parsed.sample}: one image of class {label}")


def _jpegs(size: int, rare_class: int, rare_images: int) -> dict[int, list[bytes]]:
    # Imported here: the parser must be importable without OpenCV.
    import cv2
    import numpy as np

    with resources.files(__package__).joinpath("digits.npz").open("rb") as file:
        digits = np.load(file)
        images, labels = digits["images"], digits["labels"]
    classes: dict[int, list[bytes]] = {label: [] for label in range(10)}
    for image, label in zip(images, labels.tolist(), strict=True):
        if label == rare_class and len(classes[label]) >= rare_images:
            continue
        # 0 is paper, and 255 is ink.
        cells = (image * (255 / INK)).astype(np.float32)
        smooth = cv2.resize(cells, (size, size), interpolation=cv2.INTER_CUBIC)
        pixels = np.clip(np.rint(smooth), 0, 255).astype(np.uint8)
        done, content = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, 95])
        if not done:
            raise RuntimeError("OpenCV cannot write JPEG")
        classes[label].append(content.tobytes())
    return classes


def _tar(members: Iterable[tuple[str, bytes]]) -> bytes:
    """Return an archive with the same bytes on every machine and date."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, member in members:
            # A TarInfo's defaults are owner 0, time 0, mode 0644.
            entry = tarfile.TarInfo(name)
            entry.size = len(member)
            archive.addfile(entry, io.BytesIO(member))
    return content.getvalue()


def _write(path: Path, content: bytes) -> None:
    files.make_folder(path.parent)
    files.write_file(path, content)


if __name__ == "__main__":
    sys.exit(main())
