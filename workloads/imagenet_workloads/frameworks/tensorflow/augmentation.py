"""Varies training images: crop, mirror, colour; by a seed of each image, so it can be repeated.

Options and their meaning are MXNet's where TensorFlow has the like; `supported` refuses the others.
Imports TensorFlow.
"""

from typing import Any

import tensorflow as tf

from imagenet_workloads.frameworks.tensorflow import decode
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.options.groups import AugmentationOptions

# Of ImageNet's colours, in 0..255 (Krizhevsky et al. 2012), as in MXNet.
_EIGENVALUES = (55.46, 4.794, 1.148)
_EIGENVECTORS = ((-0.5675, 0.7192, 0.4009), (-0.5808, -0.0045, -0.814), (-0.5836, -0.6948, 0.4203))


def varied(pixels: Any, seed: Any, options: Options) -> Any:
    """Vary an image.

    Args:
        pixels: (height, width, channels) in 0..255.
        seed: two integers.
        options: which variations.

    Returns:
        pixels of the network's height and width.
    """
    seeds = tf.unstack(_split(seed, 3))
    pixels = _cropped(pixels, seeds[0], options)
    if options.augmentation.random_mirror:
        pixels = tf.image.stateless_random_flip_left_right(pixels, seeds[1])
    return _coloured(pixels, seeds[2], options.augmentation)


def _split(seed: Any, count: int) -> Any:
    return tf.random.experimental.stateless_split(seed, count)


def _cropped(pixels: Any, seed: Any, options: Options) -> Any:
    _, height, width = options.model.image_shape
    pad, fill = options.data.pad_size, options.data.fill_value
    if pad:
        pixels = tf.pad(pixels, [[pad, pad], [pad, pad], [0, 0]], constant_values=float(fill))
    if options.augmentation.random_resized_crop:
        return _resized_crop(pixels, seed, options)
    pixels = decode.at_least(pixels, height, width)
    if options.augmentation.random_crop:
        return tf.image.stateless_random_crop(pixels, (height, width, pixels.shape[-1]), seed)
    top = (tf.shape(pixels)[0] - height) // 2
    left = (tf.shape(pixels)[1] - width) // 2
    return pixels[top : top + height, left : left + width]


def _resized_crop(pixels: Any, seed: Any, options: Options) -> Any:
    """Take a part of random area and aspect ratio (Szegedy et al. 2014)."""
    _, height, width = options.model.image_shape
    chosen = options.augmentation
    smallest = chosen.min_random_aspect_ratio
    if smallest is None:
        ratios = (1 / (1 + chosen.max_random_aspect_ratio), 1 + chosen.max_random_aspect_ratio)
    else:
        ratios = (smallest, chosen.max_random_aspect_ratio)
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.shape(pixels),
        tf.zeros((1, 0, 4)),
        seed,
        min_object_covered=0.0,
        aspect_ratio_range=ratios,
        area_range=(chosen.min_random_area, chosen.max_random_area),
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    return decode.resized(tf.slice(pixels, begin, size), height, width)


def _coloured(pixels: Any, seed: Any, options: AugmentationOptions) -> Any:
    seeds = tf.unstack(_split(seed, 4))
    changed = False
    if options.brightness:
        pixels, changed = pixels * _factor(seeds[0], options.brightness), True
    if options.contrast:
        grey = tf.reduce_mean(_grey(pixels))
        pixels, changed = _blended(pixels, grey, _factor(seeds[1], options.contrast)), True
    if options.saturation:
        factor = _factor(seeds[2], options.saturation)
        pixels, changed = _blended(pixels, _grey(pixels), factor), True
    if options.pca_noise and pixels.shape[-1] == 3:
        strength = tf.random.stateless_normal((3,), seeds[3], 0.0, options.pca_noise)
        moved = tf.linalg.matvec(tf.constant(_EIGENVECTORS), strength * _EIGENVALUES)
        pixels, changed = pixels + moved, True
    return tf.clip_by_value(pixels, 0.0, 255.0) if changed else pixels


def _factor(seed: Any, strength: float) -> Any:
    return 1.0 + tf.random.stateless_uniform((), seed, -strength, strength)


def _grey(pixels: Any) -> Any:
    if pixels.shape[-1] == 1:
        return pixels
    return tf.reduce_sum(pixels * (0.299, 0.587, 0.114), axis=-1, keepdims=True)


def _blended(pixels: Any, other: Any, factor: Any) -> Any:
    return factor * pixels + (1.0 - factor) * other
