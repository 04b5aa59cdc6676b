"""Prepares images: training images at random, validation images by a central crop.

The random numbers of an image are keyed by its position (`data.order.uniform_draws`), and each
place among them has one use. Options mean what they mean in MXNet's ImageRecordIter, which also has
rotation, shear and HLS (`reader`). RandAugment's operations and their ranges are torchvision's, but
histograms are equalised as in OpenCV. A ValueError says that an image is damaged.

Mixup and CutMix mix each image with the next one of its worker's batch, the last with the first.
Their numbers are drawn by the image's position; the neighbour depends on the number of workers,
like the batch. A framework mixes images and losses on its device by a `Mixing`.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from imagenet_spec.program.kinds import ImageSize
from imagenet_spec.program.train import AugmentationOptions, DataOptions
from imagenet_workloads.data.inputs import largest_shape, shape_of_epoch
from imagenet_workloads.data.jpeg import JpegImage, Pixels, Region, Size
from imagenet_workloads.data.layouts import Bytes, Layout

_MIRROR, _TOP, _LEFT, _SCALE, _ASPECT, _BRIGHTNESS, _CONTRAST, _SATURATION = range(8)
_NOISE = range(8, 14)
_ATTEMPTS = 10
_AREAS = range(14, 14 + 2 * _ATTEMPTS, 2)
_PLAIN_DRAWS = 14 + 2 * _ATTEMPTS
_ERASE, _ERASE_TOP, _ERASE_LEFT = range(_PLAIN_DRAWS, _PLAIN_DRAWS + 3)
_ERASE_AREAS = range(_ERASE_LEFT + 1, _ERASE_LEFT + 1 + 2 * _ATTEMPTS, 2)
MOST_OPERATIONS = 8
OPERATION_DRAWS = 2 * MOST_OPERATIONS
MIXING_DRAWS = 4
_OPERATIONS = slice(_ERASE_AREAS.stop, _ERASE_AREAS.stop + OPERATION_DRAWS)
MIXING = slice(_OPERATIONS.stop, _OPERATIONS.stop + MIXING_DRAWS)
"""The random numbers of an image for `draw_mixing`: share, kind, row and column of the box."""
DRAWS: int = MIXING.stop
"""Random numbers of an image, for all augmentations."""

# Zhong et al. 2017: the least and greatest part of the area, and height by width.
_ERASED_AREA, _ERASED_RATIO = (0.02, 0.33), (0.3, 1 / 0.3)

_GREY = np.array((0.299, 0.587, 0.114))
# Of ImageNet's colours, in 0..255 (Krizhevsky et al. 2012), as in MXNet.
_EIGENVALUES = np.array((55.46, 4.794, 1.148))
_EIGENVECTORS = np.array(
    ((-0.5675, 0.7192, 0.4009), (-0.5808, -0.0045, -0.814), (-0.5836, -0.6948, 0.4203))
)


@dataclass(frozen=True)
class Recipe:
    """How images become a network's input.

    Attributes:
        image_shape: channels, height, width.
        augmentation: of training images.
        pad: pixels added on each side of a training image, with the value `fill`.
        resize: shorter edge of a validation image before the central crop; 0 is as packed.
        augmented_epochs: so many epochs, from the first, are augmented; None is all.
        sizes: of training images, from their epochs on; without any, those of `image_shape`.
    """

    image_shape: tuple[int, int, int]
    augmentation: AugmentationOptions = field(default_factory=AugmentationOptions)
    pad: int = 0
    fill: int = DataOptions.fill_value
    resize: int = 0
    layout: Layout = field(default_factory=Bytes)
    augmented_epochs: int | None = None
    sizes: tuple[ImageSize, ...] = ()

    @property
    def image(self) -> tuple[int, ...]:
        """The shape in which an image lies in memory; the largest one, if epochs have several."""
        channels, *size = largest_shape(self.image_shape, self.sizes)
        return self.layout.shape(Size(*size), channels)

    @property
    def target(self) -> Size:
        return Size(*self.image_shape[1:])

    @property
    def draws(self) -> int:
        """The random numbers that an image takes, DRAWS at most."""
        chosen = self.augmentation
        further = (
            chosen.random_erasing,
            chosen.rand_augment_operations,
            chosen.mixup,
            chosen.cutmix,
        )
        return DRAWS if any(further) else _PLAIN_DRAWS

    def of_epoch(self, number: int) -> "Recipe":
        """Return the recipe of an epoch, from 0: the last ones may have no augmentation."""
        is_augmented = self.augmented_epochs is None or number < self.augmented_epochs
        if is_augmented and not self.sizes:
            return self
        return replace(
            self,
            image_shape=shape_of_epoch(self.image_shape, self.sizes, number),
            augmentation=self.augmentation if is_augmented else AugmentationOptions(),
            sizes=(),
        )


def training_pixels(encoded: bytes, draws: Sequence[float], recipe: Recipe) -> Pixels:
    """Return a training image, (height, width, channels), by `recipe.draws` numbers in [0, 1)."""
    chosen = recipe.augmentation
    image = JpegImage(encoded, recipe.image_shape[0])
    if recipe.pad:
        image.pad(recipe.pad, recipe.fill)
    if chosen.random_resized_crop:
        region = _area_crop(image.size, recipe.target, draws, chosen)
    else:
        region = _scaled_crop(image.size, recipe.target, draws, chosen)
    pixels = image.crop(region, recipe.target)
    if chosen.random_mirror and draws[_MIRROR] < 0.5:
        # OpenCV drops the axis of grey.
        pixels = cv2.flip(pixels, 1).astype(np.uint8, copy=False).reshape(pixels.shape)
    if chosen.rand_augment_operations:
        pixels = rand_augment(
            pixels,
            draws[_OPERATIONS],
            chosen.rand_augment_operations,
            chosen.rand_augment_magnitude,
            recipe.fill,
        )
    pixels = _coloured(pixels, draws, chosen)
    if chosen.random_erasing and draws[_ERASE] < chosen.random_erasing:
        pixels = _erased(pixels, draws, recipe.fill)
    return pixels


def validation_pixels(encoded: bytes, recipe: Recipe) -> Pixels:
    """Return a validation image, (height, width, channels), as `imagenet-predict` prepares it."""
    image = JpegImage(encoded, recipe.image_shape[0])
    return central_pixels(image, recipe.target, recipe.resize)


def central_pixels(
    image: JpegImage, target: Size, resize: int, *, antialias: bool = True
) -> Pixels:
    """Resize an image so that its shorter edge is `resize`, and return its centre.

    A `resize` of 0 leaves it as it comes. An image smaller than the centre is enlarged. `antialias`
    says whether the decoder may shrink it first.
    """
    shorter = min(image.size)
    edge = resize or shorter
    # The longer edge is rounded down.
    resized = Size(*(side * edge // shorter for side in image.size))
    if resized.height < target.height or resized.width < target.width:
        scale = max(target.height / resized.height, target.width / resized.width)
        resized = Size(
            *(max(round(side * scale), least) for side, least in zip(resized, target, strict=True))
        )
    image.resize(resized, antialias=antialias)
    top, left = (resized.height - target.height) // 2, (resized.width - target.width) // 2
    return image.crop(Region(top, left, *target), target)


def _scaled_crop(
    size: Size, target: Size, draws: Sequence[float], chosen: AugmentationOptions
) -> Region:
    """The part of an image that fills the target at a random scale and aspect ratio."""
    scale = _between(draws[_SCALE], chosen.min_random_scale, chosen.max_random_scale)
    largest = chosen.max_random_aspect_ratio
    ratio = 1 + _between(draws[_ASPECT], -largest, largest)
    vertical = 2 * scale / (1 + ratio)
    height = min(round(target.height / vertical), size.height)
    width = min(round(target.width / (ratio * vertical)), size.width)
    if height * target.width != width * target.height and (
        height == size.height or width == size.width
    ):
        # The image is smaller than the crop: it is enlarged, and keeps its proportions.
        smaller = min(height / target.height, width / target.width)
        height = max(round(target.height * smaller), 1)
        width = max(round(target.width * smaller), 1)
    return _placed(size, height, width, draws, random=chosen.random_crop)


def _area_crop(
    size: Size, target: Size, draws: Sequence[float], chosen: AugmentationOptions
) -> Region:
    """A random part of an image by area and aspect ratio (Szegedy et al. 2014)."""
    smallest, largest = chosen.min_random_aspect_ratio, chosen.max_random_aspect_ratio
    if smallest is None:
        smallest, largest = 1 / (1 + largest), 1 + largest
    for at in _AREAS:
        area = _between(draws[at], chosen.min_random_area, chosen.max_random_area)
        ratio = math.exp(_between(draws[at + 1], math.log(smallest), math.log(largest)))
        width = round(math.sqrt(size.height * size.width * area * ratio))
        height = round(math.sqrt(size.height * size.width * area / ratio))
        if 0 < height <= size.height and 0 < width <= size.width:
            return _placed(size, height, width, draws, random=True)
    scale = min(size.height / target.height, size.width / target.width)
    height, width = max(round(target.height * scale), 1), max(round(target.width * scale), 1)
    return _placed(size, height, width, draws, random=False)


def _placed(size: Size, height: int, width: int, draws: Sequence[float], *, random: bool) -> Region:
    if random:
        top = int(draws[_TOP] * (size.height - height + 1))
        left = int(draws[_LEFT] * (size.width - width + 1))
    else:
        top, left = (size.height - height) // 2, (size.width - width) // 2
    return Region(top, left, height, width)


def _coloured(pixels: Pixels, draws: Sequence[float], chosen: AugmentationOptions) -> Pixels:
    """Change brightness, contrast, saturation and the principal colours, as one linear map."""
    if not (chosen.brightness or chosen.contrast or chosen.saturation or chosen.pca_noise):
        return pixels
    channels = pixels.shape[2]
    grey = _GREY if channels == 3 else np.ones(1)
    matrix = np.eye(channels) * _factor(draws[_BRIGHTNESS], chosen.brightness)
    mean = grey @ matrix @ np.array(cv2.mean(pixels)[:channels])
    contrast = _factor(draws[_CONTRAST], chosen.contrast)
    offset = np.full(channels, (1 - contrast) * mean)
    if channels == 3:
        saturation = _factor(draws[_SATURATION], chosen.saturation)
        mixed = saturation * np.eye(3) + (1 - saturation) * np.outer(np.ones(3), grey)
        # Three normal numbers of six even ones (Box and Muller 1958).
        even = np.array([draws[at] for at in _NOISE])
        normal = np.sqrt(-2 * np.log1p(-even[:3])) * np.cos(2 * np.pi * even[3:])
        noise = normal * chosen.pca_noise
        matrix, offset = mixed @ matrix, mixed @ offset + _EIGENVECTORS @ (noise * _EIGENVALUES)
    changed = cv2.transform(pixels, np.column_stack((contrast * matrix, offset)))
    return changed.astype(np.uint8, copy=False).reshape(pixels.shape)


def _erased(pixels: Pixels, draws: Sequence[float], fill: int) -> Pixels:
    """Fill a random rectangle; leave an image that no rectangle drawn fits in."""
    height, width = pixels.shape[:2]
    for at in _ERASE_AREAS:
        area = height * width * _between(draws[at], *_ERASED_AREA)
        ratio = math.exp(_between(draws[at + 1], *map(math.log, _ERASED_RATIO)))
        rows, columns = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if rows < height and columns < width:
            top = int(draws[_ERASE_TOP] * (height - rows + 1))
            left = int(draws[_ERASE_LEFT] * (width - columns + 1))
            erased = pixels.copy()
            erased[top : top + rows, left : left + columns] = fill
            return erased
    return pixels


def _between(draw: float, low: float, high: float) -> float:
    return low + draw * (high - low)


def _factor(draw: float, strength: float) -> float:
    return 1 + _between(draw, -strength, strength)


_SHARE, _KIND, _ROW, _COLUMN = range(MIXING_DRAWS)
_STEPS = 4096


@dataclass(frozen=True)
class Mixing:
    """The mixture of a batch.

    Attributes:
        shares: (images,), from 0 to 1: the weight of an image's own label. The neighbour's label
            has the rest.
        boxes: (images, 4), top, left, bottom and right, in pixels: the part that is the
            neighbour's. If it is empty, all pixels are mixed by the share.
    """

    shares: NDArray[np.float32]
    boxes: NDArray[np.int64]


def draw_mixing(
    draws: NDArray[np.float64], size: Size, chosen: AugmentationOptions
) -> Mixing | None:
    """Return the mixture of some images, by (images, MIXING_DRAWS) numbers in [0, 1).

    Mixup's share is Beta(alpha, alpha) (Zhang et al. 2017). In CutMix the box has the area 1 -
    Beta(alpha, alpha) around a random point. The share is the area outside of what the image has of
    the box (Yun et al. 2019). With both, half of the images get each.
    """
    if not (chosen.mixup or chosen.cutmix):
        return None
    share = beta_quantile(draws[:, _SHARE], chosen.mixup) if chosen.mixup else np.ones(len(draws))
    boxes = np.zeros((len(draws), 4), np.int64)
    if chosen.cutmix:
        cut = draws[:, _KIND] < (0.5 if chosen.mixup else 1)
        side = np.sqrt(1 - beta_quantile(draws[cut, _SHARE], chosen.cutmix))
        for at, first, whole in ((_ROW, 0, size.height), (_COLUMN, 1, size.width)):
            centre, half = np.floor(draws[cut, at] * whole), np.floor(whole * side / 2)
            boxes[cut, first] = np.clip(centre - half, 0, whole)
            boxes[cut, first + 2] = np.clip(centre + half, 0, whole)
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        share = np.where(cut, 1 - areas / (size.height * size.width), share)
    return Mixing(share.astype(np.float32), boxes)


def beta_quantile(draws: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Turn even numbers into numbers of the distribution Beta(alpha, alpha).

    >>> beta_quantile(np.array([0.25, 0.5, 0.75]), alpha=1.0).round(6).tolist()
    [0.25, 0.5, 0.75]
    """
    powers, shares = _beta_table(alpha)
    lower = np.minimum(draws, 1 - draws)
    found: NDArray[np.float64] = np.interp(lower, shares, powers) ** (1 / alpha)
    return np.where(draws <= 0.5, found, 1 - found)


@functools.cache
def _beta_table(alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The distribution function up to 0.5, of x ** alpha, whose density is bounded there."""
    powers = np.linspace(0, math.pow(0.5, alpha), _STEPS + 1)
    density = (1 - powers ** (1 / alpha)) ** (alpha - 1)
    sums = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    return powers, sums / sums[-1] / 2


STRONGEST = 30

_GREY_32 = _GREY.astype(np.float32)
_SMOOTH = np.array(((1, 1, 1), (1, 5, 1), (1, 1, 1)), np.float32) / 13
# Of the side, for a translation of the greatest strength.
_FARTHEST = 150 / 331


def rand_augment(
    pixels: Pixels, draws: Sequence[float], operations: int, magnitude: int, fill: int
) -> Pixels:
    """Return a changed image of the same shape, by two numbers in [0, 1) for each operation.

    `magnitude` is from 0 to STRONGEST. `fill` is the value of pixels from outside of the image.
    """
    strength = magnitude / STRONGEST
    for number in range(operations):
        which, direction = draws[2 * number : 2 * number + 2]
        operation = _BY_NUMBER[int(which * len(_BY_NUMBER))]
        signed = strength if direction < 0.5 else -strength
        changed = operation(pixels, signed, fill)
        pixels = np.asarray(changed, np.uint8).reshape(pixels.shape)
    return pixels


def _moved(pixels: Pixels, matrix: Any, fill: int) -> Any:
    """Return an image whose pixel (x, y) is that of `matrix` times (x, y, 1)."""
    height, width = pixels.shape[:2]
    return cv2.warpAffine(
        pixels,
        np.array(matrix, np.float64),
        (width, height),
        flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=(fill,) * 3,
    )


def _rotated(pixels: Pixels, signed: float, fill: int) -> Any:
    height, width = pixels.shape[:2]
    matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), 30 * signed, 1)
    return _moved(pixels, matrix, fill)


def _blended(pixels: Pixels, other: Any, factor: float) -> NDArray[np.float32]:
    other = np.asarray(other, np.float32)
    found: NDArray[np.float32] = np.clip(other + factor * (pixels - other), 0, 255)
    return found


def _grey(pixels: Pixels) -> NDArray[np.float32]:
    if pixels.shape[2] == 1:
        return pixels.astype(np.float32)
    grey: NDArray[np.float32] = (pixels.astype(np.float32) @ _GREY_32)[:, :, np.newaxis]
    return grey


def _sharpened(pixels: Pixels, signed: float, fill: int) -> Any:
    smooth = pixels.copy()
    blurred = cv2.filter2D(pixels, -1, _SMOOTH).reshape(pixels.shape)
    smooth[1:-1, 1:-1] = blurred[1:-1, 1:-1]
    return _blended(pixels, smooth, 1 + 0.9 * signed)


def _posterized(pixels: Pixels, signed: float, fill: int) -> Any:
    bits = 8 - round(4 * abs(signed))
    return pixels & np.uint8(256 - (1 << (8 - bits)))


def _solarized(pixels: Pixels, signed: float, fill: int) -> Any:
    return np.where(pixels >= 255 * (1 - abs(signed)), 255 - pixels, pixels)


def _of_channels(change: Callable[[Pixels], Any]) -> Callable[[Pixels, float, int], Any]:
    return lambda pixels, signed, fill: np.stack(
        [change(pixels[:, :, channel]) for channel in range(pixels.shape[2])], axis=2
    )


def _stretched(plane: Pixels) -> Any:
    low, high = int(plane.min()), int(plane.max())
    if low == high:
        return plane
    return np.floor((plane.astype(np.float32) - low) * (255 / (high - low)))


OPERATIONS: Mapping[str, Callable[[Pixels, float, int], Any]] = {
    "identity": lambda pixels, signed, fill: pixels,
    "shear-x": lambda pixels, signed, fill: _moved(pixels, ((1, 0.3 * signed, 0), (0, 1, 0)), fill),
    "shear-y": lambda pixels, signed, fill: _moved(pixels, ((1, 0, 0), (0.3 * signed, 1, 0)), fill),
    "translate-x": lambda pixels, signed, fill: _moved(
        pixels, ((1, 0, int(_FARTHEST * signed * pixels.shape[1])), (0, 1, 0)), fill
    ),
    "translate-y": lambda pixels, signed, fill: _moved(
        pixels, ((1, 0, 0), (0, 1, int(_FARTHEST * signed * pixels.shape[0]))), fill
    ),
    "rotate": _rotated,
    "brightness": lambda pixels, signed, fill: _blended(pixels, 0, 1 + 0.9 * signed),
    "colour": lambda pixels, signed, fill: _blended(pixels, _grey(pixels), 1 + 0.9 * signed),
    "contrast": lambda pixels, signed, fill: _blended(
        pixels, _grey(pixels).mean(), 1 + 0.9 * signed
    ),
    "sharpness": _sharpened,
    "posterize": _posterized,
    "solarize": _solarized,
    "auto-contrast": _of_channels(_stretched),
    "equalize": _of_channels(cv2.equalizeHist),
}
"""Name → an operation on pixels, by its signed strength, -1 to 1, and the fill."""

_BY_NUMBER = tuple(OPERATIONS.values())
