"""`spec.training.augmentation`: MXNet's image augmenter in camelCase, and what came after it."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Gt, Le

from imagenet_spec.resource.base import DefaultWhenRead, Model, Unit
from imagenet_spec.resource.fields import Count, Fraction
from imagenet_spec.rules import Rule

Change = Annotated[float, Ge(0), Le(100)]
Scale = Annotated[float, Gt(0), Le(100)]
Area = Annotated[float, Gt(0), Le(1)]
Level = Annotated[int, Ge(0), Le(255)]


class Augmentation(Model):
    """Random changes to training images. All are off by default, as in MXNet's programs."""

    random_crop: bool = False
    """Crop at a random place instead of the centre."""

    random_mirror: bool = False
    """Mirror half of the images."""

    random_resized_crop: bool = False
    """Crop a random area and aspect ratio, resized to the network's input."""

    max_random_h: Annotated[int, Ge(0), Le(180)] = 0
    """The largest change of hue, in HSL space."""

    max_random_s: Level = 0
    """The largest change of saturation, in HSL space."""

    max_random_l: Level = 0
    """The largest change of lightness, in HSL space."""

    min_random_aspect_ratio: Scale | None = None
    """The smallest aspect ratio of a `randomResizedCrop`."""

    max_random_aspect_ratio: Change = 0.0
    """The largest change of aspect ratio; of a `randomResizedCrop` with `minRandomAspectRatio`, the
    largest aspect ratio."""

    max_random_rotate_angle: Annotated[int, Ge(0), Le(360), Unit("degrees")] = 0
    """The largest rotation, to either side."""

    max_random_shear_ratio: Change = 0.0
    """The largest shear."""

    max_random_scale: Scale = 1.0
    """The largest scale, before cropping."""

    min_random_scale: Scale = 1.0
    """The smallest scale, before cropping."""

    max_random_area: Area = 1.0
    """The largest fraction of the area that a `randomResizedCrop` keeps."""

    min_random_area: Area = 1.0
    """The smallest fraction of the area that a `randomResizedCrop` keeps."""

    brightness: Fraction = 0.0
    """The largest change of brightness, as a fraction."""

    contrast: Fraction = 0.0
    """The largest change of contrast, as a fraction."""

    saturation: Fraction = 0.0
    """The largest change of saturation, as a fraction."""

    pca_noise: Fraction = 0.0
    """The standard deviation of noise along the principal components of colour."""

    pad_size: Annotated[int, Ge(0), Le(1024), Unit("pixels")] = 0
    """Padding on every side before cropping."""

    fill_value: Level = 127
    """The pixel value of the padding."""

    random_erasing: Annotated[Fraction, DefaultWhenRead()] = 0.0
    """The fraction of images of which a random rectangle gets `fillValue` (Zhong et al. 2017)."""

    rand_augment_operations: Annotated[int, Ge(0), Le(8), DefaultWhenRead()] = 0
    """The number of random operations of RandAugment on each image (Cubuk et al. 2019)."""

    rand_augment_magnitude: Annotated[int, Ge(0), Le(30), DefaultWhenRead()] = 9
    """The strength of RandAugment's operations, of 30."""

    mixup: Annotated[Change, DefaultWhenRead()] = 0.0
    """The alpha of mixup (Zhang et al. 2017), such as 0.2. With `cutmix`, each image gets one of
    both."""

    cutmix: Annotated[Change, DefaultWhenRead()] = 0.0
    """The alpha of CutMix (Yun et al. 2019), such as 1."""

    off_in_last_epochs: Annotated[Count, Unit("epochs"), DefaultWhenRead()] = 0
    """The number of last epochs that train on images without random changes."""

    rules = (
        Rule(
            cel=(
                "!self.randomResizedCrop || (!self.randomCrop"
                " && double(self.minRandomScale) == 1.0 && double(self.maxRandomScale) == 1.0)"
            ),
            message="cannot be combined with randomCrop, minRandomScale and maxRandomScale",
            field="randomResizedCrop",
            hint="remove it or them; minRandomArea and maxRandomArea scale a resized crop",
        ),
        Rule(
            cel=(
                "!self.randomResizedCrop"
                " || double(self.minRandomArea) <= double(self.maxRandomArea)"
            ),
            message="must not be above maxRandomArea with randomResizedCrop",
            field="minRandomArea",
            explain=lambda varied: (
                f"{varied.min_random_area:g} is above maxRandomArea, {varied.max_random_area:g}",
                f"write {varied.max_random_area:g} or less",
            ),
        ),
        Rule(
            cel=(
                "!self.randomResizedCrop || !has(self.minRandomAspectRatio)"
                " || double(self.minRandomAspectRatio) <= double(self.maxRandomAspectRatio)"
            ),
            message="must not be below minRandomAspectRatio with randomResizedCrop",
            field="maxRandomAspectRatio",
            explain=lambda varied: (
                f"{varied.max_random_aspect_ratio:g} is below minRandomAspectRatio,"
                f" {varied.min_random_aspect_ratio:g}",
                f"write {varied.min_random_aspect_ratio:g} or more",
            ),
        ),
    )
