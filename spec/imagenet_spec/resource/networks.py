"""`spec.training.model`: the networks, their depths and their image sizes.

An impossible network is rejected here, not after hours of preparation. The workloads build the
networks. Contract tests build each network of this table in each of its frameworks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from annotated_types import Ge, Le, MaxLen, MinLen

from imagenet_spec.errors import Problem
from imagenet_spec.names import nearest
from imagenet_spec.program.kinds import MOST_SIZES
from imagenet_spec.program.train import SMALL_IMAGE
from imagenet_spec.resource.base import Model, Unit
from imagenet_spec.resource.fields import (
    Count,
    ImageShape,
    ImageSide,
    NetworkName,
    RelativePath,
    stays_below,
)
from imagenet_spec.resource.frameworks import NETWORKS, PREFIXES, family_of, is_named_cel
from imagenet_spec.resource.sources.fields import UploadedResults
from imagenet_spec.rules import Rule

USUAL_SIDE = 224
"""The height and width of images of ImageNet for all networks that take them."""


# The API server evaluates rules even if a list is too short, and a missing index would be another,
# misleading error.
_THREE_NUMBERS = "self.imageShape.size() != 3"


def is_small_resnet(model: Network) -> bool:
    """Whether a network is the one of the CIFAR experiments."""
    return model.network == "resnet" and model.image_shape[1] <= SMALL_IMAGE


def _explain_depth(model: Network) -> tuple[str, str]:
    depths = family_of(model.network).depths
    if not depths:
        return f"{model.network} comes in one depth", "remove it"
    layers = model.num_layers
    given = "is required for" if layers is None else f"{layers} is not a depth of"
    if is_small_resnet(model):
        return f"{given} a resnet for small images", "write 6n+2, such as 20, 56 or 110"
    return f"{given} {model.network}", f"write one of {', '.join(map(str, depths))}"


def _depth_cel() -> str:
    small = (
        f"self.network == 'resnet' && self.imageShape[1] <= {SMALL_IMAGE} ?"
        " (self.numLayers >= 164 ? (self.numLayers - 2) % 9 == 0"
        " : self.numLayers >= 8 && (self.numLayers - 2) % 6 == 0)"
    )
    by_depths: dict[tuple[int, ...], list[str]] = {}
    for name, family in NETWORKS.items():
        by_depths.setdefault(family.depths, []).append(name)
    single = by_depths.pop(())
    large = " || ".join(
        f"(self.network in {names} && self.numLayers in {list(depths)})"
        for depths, names in by_depths.items()
    )
    several = f"has(self.numLayers) && ({small} : {large})"
    one_depth = f"self.network in {single} || !(self.network in {list(NETWORKS)})"
    return f"{_THREE_NUMBERS} || ({one_depth} ? !has(self.numLayers) : {several})"


def unreached_sizes(model: Network, epochs: int) -> list[Problem]:
    """Return the sizes of images from epochs on that a training of these epochs does not have."""
    return [
        Problem(
            f"spec.training.model.imageSizes[{place}].epoch",
            f"{one.epoch} is never reached: training has {epochs} epochs, from 0 on",
            "write a smaller one, or more epochs",
            "operator",
        )
        for place, one in enumerate(model.image_sizes or ())
        if one.epoch >= epochs
    ]


def own_side(network: str) -> int:
    """Return the height and width of the images for which a network is made."""
    return max(USUAL_SIDE, family_of(network).smallest)


_SMALLEST = {name: family.smallest for name, family in NETWORKS.items() if family.smallest > 1}
_HAS_NO_SMALLEST_CEL = f"!(self.network in {list(_SMALLEST)})"
_SMALLEST_CEL = str(_SMALLEST) + "[self.network]"


def _explain_name(model: Network) -> tuple[str, str]:
    if meant := nearest(model.network, NETWORKS):
        return f"there is no network {model.network}", f"did you mean {meant}?"
    known = ", ".join((*NETWORKS, *(f"{prefix}NAME" for prefix in PREFIXES)))
    return f"there is no network {model.network}", f"write one of {known}"


class ImageSize(Model):
    """The size of training images from an epoch on."""

    epoch: Annotated[Count, Unit("epochs")]
    """The first epoch of this size, counted from 0, as in `stepEpochs`. Example: 12."""

    size: ImageSide
    """Their height and width. Example: 192."""


_SIZES = ("imageSizes", "validationSize")
_RESNET_REMEDY = f"write all sizes, and those of imageShape, on the same side of {SMALL_IMAGE}"


def _sizes(model: Network, field: str) -> list[int]:
    """Return the sizes of images that a field has."""
    if field == "imageSizes":
        return [one.size for one in model.image_sizes or ()]
    return [] if model.validation_size is None else [model.validation_size]


def _all_sizes_cel(field: str, condition: Callable[[str], str]) -> str:
    """Return the CEL expression that a condition, of a path, holds for all sizes of a field."""
    if field == "imageSizes":
        return f"self.imageSizes.all(one, {condition('one.size')})"
    return condition(f"self.{field}")


def _size_rules(field: str) -> tuple[Rule, ...]:
    """Return the rules that the network can take the sizes of a field."""
    fixed = [name for name, family in NETWORKS.items() if family.has_fixed_input]
    large_enough = _all_sizes_cel(field, lambda size: f"{size} >= {_SMALLEST_CEL}")
    one_side = _all_sizes_cel(
        field, lambda size: f"({size} <= {SMALL_IMAGE}) == (self.imageShape[1] <= {SMALL_IMAGE})"
    )
    return (
        Rule(
            cel=f"!has(self.{field}) || !(self.network in {fixed})",
            message="must be absent for a network with a fixed input",
            field=field,
            explain=lambda model: (
                f"{model.network} has a fixed input, so its images have one size",
                "remove it, or write another network, such as resnet",
            ),
        ),
        Rule(
            cel=f"!has(self.{field}) || {_HAS_NO_SMALLEST_CEL} || {large_enough}",
            message="is too small for the network",
            field=field,
            explain=lambda model: (
                f"{min(_sizes(model, field))} is too small for {model.network}",
                f"write at least {family_of(model.network).smallest} pixels",
            ),
        ),
        Rule(
            cel=(
                f"!has(self.{field}) || {_THREE_NUMBERS} || self.network != 'resnet' || {one_side}"
            ),
            message=f"must not be on both sides of {SMALL_IMAGE} with imageShape for resnet",
            field=field,
            explain=lambda model: (
                f"up to {SMALL_IMAGE} pixels, resnet is another network",
                _RESNET_REMEDY,
            ),
        ),
    )


class Network(Model):
    """The network to train."""

    network: NetworkName
    """The network's name, as in MXNet's programs; with PyTorch also timm/NAME, a network of timm.
    `imagenetctl networks` lists the networks of each framework."""

    num_layers: Annotated[int, Ge(1), Le(2000)] | None = None
    """The depth, for resnet (18, 34, 50, 101, 152; for images of up to 32 pixels 6n+2, such as 20,
    56, 110, and from 164 on 9n+2), resnet-v1, vgg, vgg-bn (11, 13, 16, 19) and densenet (121, 161,
    169, 201)."""

    image_shape: ImageShape = (3, USUAL_SIDE, USUAL_SIDE)
    """The network's input: channels are 3 for colour, 1 for grey."""

    image_sizes: Annotated[tuple[ImageSize, ...], MinLen(1), MaxLen(MOST_SIZES)] | None = None
    """Progressive resizing, with PyTorch: the sizes of training images, each from its epoch on. The
    first epoch is 0, and epochs rise. Example: `[{epoch: 0, size: 160}, {epoch: 12, size: 192}]`.
    Absent: all epochs have the size of `imageShape`."""

    validation_size: ImageSide | None = None
    """The height and width of validation images, with PyTorch, and of the images that the exported
    model takes. Example: 256. Absent: those of `imageShape`."""

    pretrained: RelativePath | None = None
    """The file of the weights from which training starts, on the output volume: safetensors, or a
    state_dict of PyTorch. A last layer for another number of classes is made new. Absent: random
    weights."""

    pretrained_remote: UploadedResults | None = None
    """The same of the exported model in another job's uploaded results; its prefix may also be the
    key of a file of weights."""

    rules = (
        Rule(
            cel=is_named_cel("self.network"),
            message="must be the name of a network",
            field="network",
            explain=_explain_name,
        ),
        stays_below("pretrained"),
        Rule(
            cel=_depth_cel(),
            message="must be a depth of the network, and absent if the network has only one",
            field="numLayers",
            explain=_explain_depth,
        ),
        Rule(
            cel=f"{_THREE_NUMBERS} || self.imageShape[0] == 1 || self.imageShape[0] == 3",
            message="must have 1 or 3 channels",
            field="imageShape",
            explain=lambda model: (
                f"must have 1 or 3 channels, not {model.image_shape[0]}",
                "write [channels, height, width]",
            ),
        ),
        Rule(
            cel=(
                f"{_THREE_NUMBERS} || {_HAS_NO_SMALLEST_CEL}"
                " || [self.imageShape[1], self.imageShape[2]].all(side,"
                f" side >= {_SMALLEST_CEL})"
            ),
            message="is too small for the network",
            field="imageShape",
            explain=lambda model: (
                f"is too small for {model.network}",
                f"write at least {family_of(model.network).smallest} pixels a side",
            ),
        ),
        Rule(
            cel=(
                "!has(self.imageSizes) || self.imageSizes.size() == 0"
                " || (self.imageSizes[0].epoch == 0"
                " && self.imageSizes.map(one, one.epoch).isSorted()"
                " && self.imageSizes.all(one,"
                " self.imageSizes.exists_one(other, other.epoch == one.epoch)))"
            ),
            message="must begin at epoch 0, and rise from one epoch to the next",
            field="imageSizes",
            explain=lambda model: (
                "must begin at epoch 0, and rise from one epoch to the next, not "
                f"{[one.epoch for one in model.image_sizes]}",
                "write the first entry with epoch: 0, and each epoch once",
            ),
        ),
        *(rule for field in _SIZES for rule in _size_rules(field)),
    )

    @property
    def training_sides(self) -> tuple[int, int]:
        """The height and width of the largest training images, in pixels."""
        if self.image_sizes:
            return (max(one.size for one in self.image_sizes),) * 2
        return self.image_shape[1], self.image_shape[2]

    @property
    def validation_sides(self) -> tuple[int, int]:
        """The height and width of validation images, in pixels."""
        if self.validation_size is not None:
            return (self.validation_size, self.validation_size)
        return self.image_shape[1], self.image_shape[2]
