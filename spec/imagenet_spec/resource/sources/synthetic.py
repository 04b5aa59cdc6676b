"""The source `synthetic`: images drawn from a seed, for benchmarks and smoke tests."""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge, Le

from imagenet_spec.resource.fields import SPLIT_DEFAULT, ImageShape, PositiveInt
from imagenet_spec.resource.sources.fields import SourceFields, needs_volume, validates_by_split
from imagenet_spec.rules import Rule


def _split(dataset: Any) -> int:
    """Return how many images of each class validate; 0 if these are not drawn from the classes."""
    if dataset.validation is None:
        return SPLIT_DEFAULT
    split = dataset.validation.split
    return 0 if split is None else int(split.images_per_class)


def _training_images(dataset: Any) -> int:
    """Return how many images of a synthetic source train, before any class is dropped."""
    source = dataset.source.synthetic
    return int(source.classes) * (int(source.images_per_class) - _split(dataset))


_SPLIT = (
    f"(!has(self.validation) ? {SPLIT_DEFAULT} : !has(self.validation.split) ? 0"
    " : self.validation.split.imagesPerClass)"
)
"""`_split` as the API server computes it."""


class SyntheticSource(SourceFields):
    """Generated images, each class with its own pattern: no archive is needed."""

    classes: Annotated[int, Ge(2), Le(100_000)] = 10
    """How many classes the images have."""

    images_per_class: PositiveInt = 500
    """Images that are drawn for each class, those for validation included."""

    image_shape: ImageShape = (3, 256, 256)
    """The size of the drawn images; channels must be 3."""

    rules = (
        Rule(
            cel="self.imageShape.size() != 3 || self.imageShape[0] == 3",
            message="must have 3 channels",
            field="imageShape",
            explain=lambda source: (
                f"must have 3 channels, not {source.image_shape[0]}",
                f"write [3, {source.image_shape[1]}, {source.image_shape[2]}]",
            ),
        ),
    )

    dataset_rules = (
        needs_volume("synthetic", "20Gi"),
        Rule(
            cel=(
                "!has(self.source.synthetic)"
                " || self.source.synthetic.imagesPerClass >= self.preprocessing.minImagesPerClass"
            ),
            message="must be at least preprocessing.minImagesPerClass, or every class is dropped",
            field="source.synthetic.imagesPerClass",
            explain=lambda dataset: (
                f"{dataset.source.synthetic.images_per_class} images are fewer than"
                " preprocessing.minImagesPerClass, so that every class would be dropped",
                f"write {dataset.preprocessing.min_images_per_class}, or a lower minImagesPerClass",
            ),
        ),
        Rule(
            cel=f"!has(self.source.synthetic) || self.source.synthetic.imagesPerClass > {_SPLIT}",
            message="must be above validation.split.imagesPerClass, or no images train",
            field="source.synthetic.imagesPerClass",
            explain=lambda dataset: (
                f"{dataset.source.synthetic.images_per_class} images leave none to train, since"
                f" validation.split takes {_split(dataset)} of each class",
                f"write {_split(dataset) + 1} or more, or a lower validation.split.imagesPerClass",
            ),
        ),
        Rule(
            cel=(
                "!has(self.source.synthetic)"
                # Where none are left to train, the rule above says so.
                f" || self.source.synthetic.imagesPerClass <= {_SPLIT}"
                " || self.source.synthetic.classes *"
                f" (self.source.synthetic.imagesPerClass - {_SPLIT}) >= self.preprocessing.shards"
            ),
            message="must be at most the number of training images, or a shard would be empty",
            field="preprocessing.shards",
            explain=lambda dataset: (
                f"{dataset.preprocessing.shards} shards are more than the"
                f" {_training_images(dataset)} training images",
                f"write {_training_images(dataset)} or fewer, or more images",
            ),
        ),
        validates_by_split("synthetic"),
    )

    @property
    def shorter_edge(self) -> tuple[str, int]:
        return "imageShape", min(self.image_shape[1:])
