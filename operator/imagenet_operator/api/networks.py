"""`spec.training.model`: the networks, their depths and their image sizes.

An impossible network is rejected here, not after hours of preparation. The workloads build the
networks. Contract tests build each network of this table in each of its frameworks.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Annotated

from annotated_types import Ge, Le, MaxLen, MinLen

from imagenet_operator.api.base import Model, Rule, Unit
from imagenet_operator.api.fields import (
    Count,
    ImageShape,
    ImageSide,
    NetworkName,
    RelativePath,
    stays_below,
)
from imagenet_operator.api.frameworks import (
    NETWORKS,
    PREFIXES,
    family_of,
    is_named,
    is_named_cel,
)
from imagenet_operator.errors import Problem
from imagenet_spec.program.kinds import MOST_SIZES

SMALL_IMAGE = 32
"""Up to this height, a resnet is that of the CIFAR experiments, with other depths."""

USUAL_SIDE = 224
"""The height and width of images of ImageNet for all networks that take them."""


# The API server evaluates rules even if a list is too short, and a missing index would be another,
# misleading error.
_THREE_NUMBERS = "self.imageShape.size() != 3"


def small_depth(layers: int) -> bool:
    """Whether a resnet for small images has this depth: 6n+2, or 9n+2 with bottlenecks."""
    return (layers - 2) % 9 == 0 if layers >= 164 else layers >= 8 and (layers - 2) % 6 == 0


def is_small_resnet(model: Network) -> bool:
    """Whether a network is the one of the CIFAR experiments."""
    return model.network == "resnet" and model.image_shape[1] <= SMALL_IMAGE


def _depth_holds(model: Network) -> bool:
    depths, layers = family_of(model.network).depths, model.num_layers
    if not depths or layers is None:
        return not depths and layers is None
    return small_depth(layers) if is_small_resnet(model) else layers in depths


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


def _sides_hold(model: Network) -> bool:
    return min(model.image_shape[1:]) >= family_of(model.network).smallest


def _smallest_cel() -> str:
    picky = {name: family.smallest for name, family in NETWORKS.items() if family.smallest > 1}
    table = ", ".join(f"'{name}': {side}" for name, side in picky.items())
    return (
        f"{_THREE_NUMBERS} || !(self.network in {list(picky)})"
        " || [self.imageShape[1], self.imageShape[2]].all(side,"
        f" side >= {{{table}}}[self.network])"
    )


def _explain_name(model: Network) -> tuple[str, str]:
    near = difflib.get_close_matches(model.network.lower(), NETWORKS, n=1, cutoff=0.7)
    if near:
        return f"there is no network {model.network}", f"did you mean {near[0]}?"
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
    picky = {name: family.smallest for name, family in NETWORKS.items() if family.smallest > 1}
    table = ", ".join(f"'{name}': {side}" for name, side in picky.items())
    large_enough = _all_sizes_cel(field, lambda size: f"{size} >= {{{table}}}[self.network]")
    one_side = _all_sizes_cel(
        field, lambda size: f"({size} <= {SMALL_IMAGE}) == (self.imageShape[1] <= {SMALL_IMAGE})"
    )
    return (
        Rule(
            cel=f"!has(self.{field}) || !(self.network in {fixed})",
            message="must be absent for a network with a fixed input",
            field=field,
            holds=lambda model: (
                not _sizes(model, field) or not family_of(model.network).has_fixed_input
            ),
            explain=lambda model: (
                f"{model.network} has a fixed input, so its images have one size",
                "remove it, or write another network, such as resnet",
            ),
        ),
        Rule(
            cel=f"!has(self.{field}) || !(self.network in {list(picky)}) || {large_enough}",
            message="is too small for the network",
            field=field,
            holds=lambda model: all(
                size >= family_of(model.network).smallest for size in _sizes(model, field)
            ),
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
            holds=lambda model: (
                model.network != "resnet"
                or all(
                    (size <= SMALL_IMAGE) == (model.image_shape[1] <= SMALL_IMAGE)
                    for size in _sizes(model, field)
                )
            ),
            explain=lambda model: (
                f"up to {SMALL_IMAGE} pixels, resnet is another network",
                _RESNET_REMEDY,
            ),
        ),
    )


def _epochs_rise(model: Network) -> bool:
    epochs = [one.epoch for one in model.image_sizes or ()]
    return not epochs or (epochs[0] == 0 and epochs == sorted(set(epochs)))


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

    rules = (
        Rule(
            cel=is_named_cel("self.network"),
            message="must be the name of a network",
            field="network",
            holds=lambda model: is_named(model.network),
            explain=_explain_name,
        ),
        stays_below("pretrained"),
        Rule(
            cel=_depth_cel(),
            message="must be a depth of the network, and absent if the network has only one",
            field="numLayers",
            holds=_depth_holds,
            explain=_explain_depth,
        ),
        Rule(
            cel=f"{_THREE_NUMBERS} || self.imageShape[0] == 1 || self.imageShape[0] == 3",
            message="must have 1 or 3 channels",
            field="imageShape",
            holds=lambda model: model.image_shape[0] in (1, 3),
            explain=lambda model: (
                f"must have 1 or 3 channels, not {model.image_shape[0]}",
                "write [channels, height, width]",
            ),
        ),
        Rule(
            cel=_smallest_cel(),
            message="is too small for the network",
            field="imageShape",
            holds=_sides_hold,
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
            holds=_epochs_rise,
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
