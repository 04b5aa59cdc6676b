"""The shape of the images: of training in each epoch, of validation, and the largest. Pure.

Progressive resizing trains on smaller images first. The epoch alone decides their size, so a
resumed training goes on with the same one.
"""

from collections.abc import Sequence

from imagenet_spec.program.kinds import ImageSize
from imagenet_spec.program.train import ModelOptions

Shape = tuple[int, int, int]
"""Channels, height, width."""


def of_epoch(shape: Shape, sizes: Sequence[ImageSize], epoch: int) -> Shape:
    """Return the shape of training images in an epoch, counted from 0.

    Args:
        shape: without sizes; its channels always hold.
        sizes: with rising epochs, the first one 0.
        epoch: of the training.

    >>> of_epoch((3, 224, 224), (ImageSize(0, 128), ImageSize(6, 160)), 6)
    (3, 160, 160)
    """
    begun = [one.size for one in sizes if one.epoch <= epoch]
    return (shape[0], begun[-1], begun[-1]) if begun else shape


def largest(shape: Shape, sizes: Sequence[ImageSize]) -> Shape:
    """Return the shape of the largest training images."""
    if not sizes:
        return shape
    size = max(one.size for one in sizes)
    return (shape[0], size, size)


def validation_shape(model: ModelOptions) -> Shape:
    """Return the shape of validation images, which is that of the exported model's input."""
    size, shape = model.validation_size, model.image_shape
    return shape if size is None else (shape[0], size, size)


def count(model: ModelOptions) -> int:
    """Return how many sizes of images the network sees, with those of validation."""
    shape = model.image_shape
    trained = {of_epoch(shape, model.image_sizes, one.epoch) for one in model.image_sizes}
    return len((trained or {shape}) | {validation_shape(model)})
