"""Prepares images: training images at random, validation images by a central crop.

The random numbers of an image are keyed by its position (`data.order.uniform_draws`), and each
place among them has one use. RandAugment's operations are in `rand_augment`; images are mixed by
`mixing`, on the device. Options mean what they mean in MXNet's ImageRecordIter, which also has
rotation, shear and HLS (`reader`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from imagenet_spec.program.kinds import ImageSize
from imagenet_spec.program.train import AugmentationOptions
from imagenet_workloads.data import image_sizes, mixing, rand_augment
from imagenet_workloads.data.jpeg import JpegImage, Pixels, Region, Size
from imagenet_workloads.data.layouts import Bytes, Layout

_MIRROR, _TOP, _LEFT, _SCALE, _ASPECT, _BRIGHTNESS, _CONTRAST, _SATURATION = range(8)
_NOISE = range(8, 14)
_ATTEMPTS = 10
_AREAS = range(14, 14 + 2 * _ATTEMPTS, 2)
_PLAIN_DRAWS = 14 + 2 * _ATTEMPTS
_ERASE, _ERASE_TOP, _ERASE_LEFT = range(_PLAIN_DRAWS, _PLAIN_DRAWS + 3)
_ERASE_AREAS = range(_ERASE_LEFT + 1, _ERASE_LEFT + 1 + 2 * _ATTEMPTS, 2)
_OPERATIONS = slice(_ERASE_AREAS.stop, _ERASE_AREAS.stop + rand_augment.DRAWS)
MIXING = slice(_OPERATIONS.stop, _OPERATIONS.stop + mixing.DRAWS)
"""The random numbers of an image for `mixing`."""
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
        pad: pixels added on each side of a training image.
        fill: their value.
        resize: shorter edge of a validation image before the central crop; 0 is as packed.
        layout: how the images of a batch lie in memory.
        augmented_epochs: so many epochs, from the first, are augmented; None is all.
        sizes: of training images, from their epochs on; without any, those of `image_shape`.
    """

    image_shape: tuple[int, int, int]
    augmentation: AugmentationOptions = field(default_factory=AugmentationOptions)
    pad: int = 0
    fill: int = 127
    resize: int = 0
    layout: Layout = field(default_factory=Bytes)
    augmented_epochs: int | None = None
    sizes: tuple[ImageSize, ...] = ()

    @property
    def image(self) -> tuple[int, ...]:
        """The shape in which an image lies in memory; the largest one, if epochs have several."""
        channels, *size = image_sizes.largest(self.image_shape, self.sizes)
        return self.layout.shape(Size(*size), channels)

    @property
    def target(self) -> Size:
        """Height and width of the network's input."""
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
        """Return the recipe of an epoch, counted from 0: with its size and its augmentation.

        The last epochs may have no augmentation.
        """
        is_augmented = self.augmented_epochs is None or number < self.augmented_epochs
        if is_augmented and not self.sizes:
            return self
        return replace(
            self,
            image_shape=image_sizes.of_epoch(self.image_shape, self.sizes, number),
            augmentation=self.augmentation if is_augmented else AugmentationOptions(),
            sizes=(),
        )


def training_pixels(encoded: bytes, draws: Sequence[float], recipe: Recipe) -> Pixels:
    """Return a training image, (height, width, channels).

    Args:
        encoded: the image.
        draws: `recipe.draws` numbers from 0 to below 1.
        recipe: how.

    Raises:
        ValueError: the image is damaged.
    """
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
        pixels = rand_augment.rand_augment(
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
    """Return a validation image, (height, width, channels), as `imagenet-predict` prepares it.

    Raises:
        ValueError: the image is damaged.
    """
    image = JpegImage(encoded, recipe.image_shape[0])
    return central_pixels(image, recipe.target, recipe.resize)


def central_pixels(
    image: JpegImage, target: Size, resize: int, *, antialias: bool = True
) -> Pixels:
    """Resize an image and return its centre, (height, width, channels).

    Args:
        image: the image.
        target: height and width of the centre; a smaller image is enlarged.
        resize: the shorter edge before; 0 is as it comes.
        antialias: whether the decoder may shrink it first.

    Raises:
        ValueError: the image is damaged.
    """
    shorter = min(image.size)
    edge = resize or shorter
    # The longer edge is rounded down.
    resized = Size(*(side * edge // shorter for side in image.size))
    if resized.height < target.height or resized.width < target.width:
        resized = _enlarged(resized, target)
    image.resize(resized, antialias=antialias)
    top, left = (resized.height - target.height) // 2, (resized.width - target.width) // 2
    return image.crop(Region(top, left, *target), target)


def _enlarged(size: Size, target: Size) -> Size:
    scale = max(target.height / size.height, target.width / size.width)
    return Size(
        max(round(size.height * scale), target.height), max(round(size.width * scale), target.width)
    )


def _scaled_crop(
    size: Size, target: Size, draws: Sequence[float], chosen: AugmentationOptions
) -> Region:
    """Return the part of an image that fills the target at a random scale and aspect ratio."""
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
    """Return a random part of an image by area and aspect ratio (Szegedy et al. 2014)."""
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
        noise = _normal([draws[at] for at in _NOISE]) * chosen.pca_noise
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


def _normal(draws: Sequence[float]) -> NDArray[np.float64]:
    """Return three normal numbers of six even ones (Box and Muller 1958)."""
    first, second = np.array(draws[:3]), np.array(draws[3:])
    normal: NDArray[np.float64] = np.sqrt(-2 * np.log1p(-first)) * np.cos(2 * np.pi * second)
    return normal
