"""The photographs that the benchmarks pack and read: scikit-learn's two, made like ILSVRC's files.

Size in pixels, quality, chroma sampling and bytes per pixel have the distribution of 200 files of
ILSVRC2012's training images, of as many classes. Crop, perspective and light are drawn; then the
detail of each view is raised or lowered until its JPEG has the bytes per pixel that were drawn.
All is made from a seed.
"""

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_sample_images

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

CLASSES = 20

_SHARES = (0, 5, 10, 25, 50, 75, 90, 95, 100)


class Kind(NamedTuple):
    """Files with some kinds of chroma sampling, and their percentiles at `_SHARES`.

    Attributes:
        samplings: of the chroma, each with its share of all files; `Gray` has none.
        longer_edge: in pixels.
        aspect: the longer edge divided by the shorter one.
        quality: of the JPEG, judged by its table for brightness.
        bytes_per_pixel: the file's bytes divided by its pixels.
    """

    samplings: dict[str, float]
    longer_edge: tuple[float, ...]
    aspect: tuple[float, ...]
    quality: tuple[float, ...]
    bytes_per_pixel: tuple[float, ...]


# Measured on the 200 files. A quarter of them is upright.
_KINDS = (
    Kind(
        {"444": 0.76},
        (150, 434, 500, 500, 500, 500, 500, 520, 800),
        (1.0, 1.18, 1.31, 1.33, 1.4, 1.5, 1.5, 1.63, 2.29),
        (76, 86, 88, 96, 96, 96, 96, 96, 99),
        (0.18, 0.24, 0.35, 0.48, 0.65, 0.86, 1.0, 1.17, 1.58),
    ),
    Kind(
        {"420": 0.19, "Gray": 0.025, "422": 0.02, "440": 0.005},
        (200, 260, 310, 422, 500, 640, 800, 1051, 1600),
        (1.0, 1.01, 1.04, 1.28, 1.33, 1.48, 1.5, 1.52, 2.03),
        (61, 70, 75, 75, 85, 90, 96, 97, 100),
        (0.08, 0.1, 0.12, 0.14, 0.24, 0.32, 0.52, 0.56, 0.73),
    ),
)
_UPRIGHT = 0.27
_SAMPLINGS = {
    "444": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    "440": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440,
    "422": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "420": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
}

# The edge of the texture, of which each picture has another part.
_TEXTURE = 1700
# Encodings until a file has its bytes, to about a hundredth.
_ATTEMPTS = 8


class Drawn(NamedTuple):
    """What one file is to be like."""

    sampling: str
    width: int
    height: int
    quality: int
    bytes: int


def make_photographs(place: Path, images: int) -> Path:
    """Make the folder of photographs, in class folders, unless it is there; return it."""
    folder = place / f"photographs-as-ilsvrc-{images}"
    if folder.exists():
        return folder
    making = folder.with_suffix(".making")
    shutil.rmtree(making, ignore_errors=True)
    photographs = [np.asarray(image)[:, :, ::-1] for image in load_sample_images().images]
    random = np.random.default_rng(0)
    texture = make_texture(random)
    for number, drawn in enumerate(draw(images)):
        path = making / f"n{number % CLASSES:08}" / f"{number:06}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        view = take_view(photographs[number % len(photographs)], drawn.width, drawn.height, random)
        top, left = random.integers(0, _TEXTURE - np.array(view.shape[:2]))
        part = texture[top : top + drawn.height, left : left + drawn.width]
        path.write_bytes(encode(view, part, drawn))
    making.rename(folder)
    return folder


def draw(images: int) -> list[Drawn]:
    """Draw what each file is like; each figure has its shares in any number of files."""
    random = np.random.default_rng(1)
    # A Latin hypercube: of n files, each nth of a figure's distribution has one.
    kinds, edges, aspects, uprights, qualities = (
        (random.permutation(images) + random.random(images)) / images for _ in range(5)
    )
    names = [name for kind in _KINDS for name in kind.samplings]
    ends = np.cumsum([share for kind in _KINDS for share in kind.samplings.values()])
    found = []
    for number in range(images):
        sampling = names[int(np.searchsorted(ends[:-1], kinds[number], side="right"))]
        (kind,) = (one for one in _KINDS if sampling in one.samplings)

        def percentile(values: tuple[float, ...], drawn: Any) -> float:
            return float(np.interp(100 * drawn, _SHARES, values))

        longer = round(percentile(kind.longer_edge, edges[number]))
        shorter = round(longer / percentile(kind.aspect, aspects[number]))
        width, height = (shorter, longer) if uprights[number] < _UPRIGHT else (longer, shorter)
        # Of the 200 files too, those of better quality have more bytes per pixel.
        quality = round(percentile(kind.quality, qualities[number]))
        bytes = percentile(kind.bytes_per_pixel, qualities[number]) * width * height
        found.append(Drawn(sampling, width, height, quality, round(bytes)))
    return found


def make_texture(random: np.random.Generator) -> Floats:
    """Make brightness and colours with the spectrum of photographs, 1/f, around 0."""
    across, down = np.fft.rfftfreq(_TEXTURE), np.fft.fftfreq(_TEXTURE)
    frequency = np.hypot(down[:, np.newaxis], across[np.newaxis])
    frequency[0, 0] = np.inf
    grey, red, blue = (
        np.fft.irfft2(np.fft.rfft2(random.normal(size=(_TEXTURE, _TEXTURE))) / frequency)
        for _ in range(3)
    )
    # Most of a photograph is brightness, which all its colours share.
    mixed = np.stack([grey + 0.2 * blue, grey, grey + 0.2 * red], axis=2)
    return _details((mixed * (20 / mixed.std())).astype(np.float32))


def take_view(photograph: Pixels, width: int, height: int, random: np.random.Generator) -> Pixels:
    """A part of a photograph in another perspective and light."""
    rows, columns = photograph.shape[:2]
    part = random.uniform(0.75, 1) * min(columns / width, rows / height)
    left = random.uniform(0, columns - part * width)
    top = random.uniform(0, rows - part * height)
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    seen = corners * part + (left, top) + random.uniform(-20, 20, (4, 2))
    view: npt.NDArray[Any] = cv2.warpPerspective(
        photograph,
        cv2.getPerspectiveTransform(seen.astype(np.float32), corners),
        (width, height),
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REFLECT,
    )
    light = view * random.uniform(0.8, 1.2) + random.uniform(-15, 15)
    return np.asarray(np.clip(light, 0, 255), np.uint8)


def encode(view: Pixels, texture: Floats, drawn: Drawn) -> bytes:
    """Encode a view with as much detail as its drawn bytes need."""
    pixels = view.astype(np.float32)
    detail = _details(pixels)
    smooth, detail = pixels - detail, detail + texture
    gain, least, most, jpeg = 1.0, 1e-3, 1e3, b""
    for _ in range(_ATTEMPTS):
        jpeg = _encoded(smooth + gain * detail, drawn)
        if abs(len(jpeg) / drawn.bytes - 1) < 0.01:
            break
        least, most = (gain, most) if len(jpeg) < drawn.bytes else (least, gain)
        # Bytes grow about as fast as detail; halving the interval serves where they do not.
        better = gain * drawn.bytes / len(jpeg)
        gain = better if least < better < most else float(np.sqrt(least * most))
    return jpeg


def _details(pixels: Floats) -> Floats:
    """Return what a blur removes."""
    return np.asarray(pixels - cv2.GaussianBlur(pixels, (0, 0), 3), np.float32)


def _encoded(pixels: Floats, drawn: Drawn) -> bytes:
    image: npt.NDArray[Any] = np.clip(pixels, 0, 255).astype(np.uint8)
    options = [cv2.IMWRITE_JPEG_QUALITY, drawn.quality]
    if drawn.sampling == "Gray":
        image = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    else:
        options += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, _SAMPLINGS[drawn.sampling]]
    return cv2.imencode(".jpg", image, options)[1].tobytes()
