"""What a framework lacks of the networks, optimizers and augmentations: rules for `spec.training`.

The resource has MXNet's options; TensorFlow has those that mean the same in it. One that it lacks
is refused here, since a program that ignored it would train something else than the manifest says.
So is what MXNet fails at and TensorFlow does: it would fail with the first batch, hours later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from imagenet_operator.api.augmentation import Augmentation
from imagenet_operator.api.base import Rule
from imagenet_operator.api.frameworks import FORMATS
from imagenet_operator.api.networks import FAMILIES

MXNET_OPTIMIZERS = ("lbsgd",)
"""Optimizers that MXNet alone has."""

MXNET_AUGMENTATIONS = (
    "max_random_h",
    "max_random_s",
    "max_random_l",
    "max_random_rotate_angle",
    "max_random_shear_ratio",
    "max_random_scale",
    "min_random_scale",
)
"""Fields of the augmentation that MXNet alone has."""

MXNET_COLOUR_AUGMENTATIONS = (
    "max_random_h",
    "max_random_s",
    "max_random_l",
    "brightness",
    "contrast",
    "saturation",
    "pca_noise",
)
"""Fields of the augmentation that MXNet has for images of 3 channels alone. With those of 1 it
fails at the first batch; but `pca_noise` it does not check, and writes beyond the image's end."""

MXNET_OPTIONS = ("dtype", "monitor", "gc-type", "gc-threshold")
"""Options of ``imagenet-train`` without a field, of which the same holds."""

_MXNET_OPTION = f"^--({'|'.join(MXNET_OPTIONS)})(=|$)"


def networks_of(framework: str) -> list[str]:
    """Return the names of the networks that a framework has."""
    return [name for name, family in FAMILIES.items() if framework in family.frameworks]


def _explain_network(training: Any) -> tuple[str, str]:
    framework, network = training.framework, training.model.network
    others = " or ".join(FAMILIES[network].frameworks)
    return (
        f"{framework} has no {network}",
        f"write one of {', '.join(networks_of(framework))}, or framework: {others}",
    )


def _changed(augmentation: Augmentation, names: Iterable[str]) -> list[str]:
    """Return which of some fields differ from their defaults, as a manifest writes them."""
    fields = Augmentation.model_fields
    return [
        str(fields[name].alias)
        for name in names
        if getattr(augmentation, name) != fields[name].default
    ]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(str(Augmentation.model_fields[name].alias) for name in names)


def _colours_hold(training: Any) -> bool:
    return (
        training.framework != "MXNet"
        or training.model.image_shape[0] != 1
        or not _changed(training.augmentation, MXNET_COLOUR_AUGMENTATIONS)
    )


def _explain_colours(training: Any) -> tuple[str, str]:
    changed = _changed(training.augmentation, MXNET_COLOUR_AUGMENTATIONS)
    _, height, width = training.model.image_shape
    return (
        f"MXNet has no {' and no '.join(changed)} for images of 1 channel",
        f"remove it, or write model.imageShape: [3, {height}, {width}]",
    )


def _ratios_hold(training: Any) -> bool:
    varied = training.augmentation
    return (
        training.framework != "MXNet"
        or not varied.random_resized_crop
        or varied.min_random_aspect_ratio is not None
        or varied.max_random_aspect_ratio < 1
    )


def _explain_ratios(training: Any) -> tuple[str, str]:
    change = f"{training.augmentation.max_random_aspect_ratio:g}"
    return (
        f"{change} without minRandomAspectRatio is a change, to ratios from 1 - {change}, which is"
        " not above 0",
        "write minRandomAspectRatio: 0.75 too, or a change below 1",
    )


def _of_mxnet(training: Any) -> list[str]:
    """Return the extra arguments that are options of MXNet alone."""
    return [text for text in training.extra_args if re.match(_MXNET_OPTION, text)]


def _unchanged_cel(names: Iterable[str]) -> str:
    clauses = []
    for name in names:
        field = Augmentation.model_fields[name]
        path = f"self.augmentation.{field.alias}"
        # A whole number that stands in a field of numbers is one for CEL, too.
        clauses.append(
            f"double({path}) == {field.default}"
            if isinstance(field.default, float)
            else f"{path} == {field.default}"
        )
    return " && ".join(clauses)


RULES = (
    Rule(
        cel=" && ".join(
            f"(self.framework != '{name}' || self.model.network in {networks_of(name)})"
            for name in FORMATS
        ),
        message="must be one that the framework has",
        field="model.network",
        holds=lambda training: training.framework in FAMILIES[training.model.network].frameworks,
        explain=_explain_network,
    ),
    Rule(
        cel=f"self.framework == 'MXNet' || !(self.optimizer.name in {list(MXNET_OPTIMIZERS)})",
        message=f"can be {' or '.join(MXNET_OPTIMIZERS)} only with the framework MXNet",
        field="optimizer.name",
        holds=lambda training: (
            training.framework == "MXNet" or training.optimizer.name not in MXNET_OPTIMIZERS
        ),
        explain=lambda training: (
            f"{training.framework} has no {training.optimizer.name}",
            "write another optimizer, such as sgd, or framework: MXNet",
        ),
    ),
    Rule(
        cel=f"self.framework == 'MXNet' || ({_unchanged_cel(MXNET_AUGMENTATIONS)})",
        message=f"may have these only with the framework MXNet: {_listed(MXNET_AUGMENTATIONS)}",
        field="augmentation",
        holds=lambda training: (
            training.framework == "MXNet"
            or not _changed(training.augmentation, MXNET_AUGMENTATIONS)
        ),
        explain=lambda training: (
            f"{training.framework} has no "
            + " and no ".join(_changed(training.augmentation, MXNET_AUGMENTATIONS)),
            "remove it, or write framework: MXNet",
        ),
    ),
    Rule(
        cel=(
            "self.framework != 'MXNet' || self.model.imageShape.size() != 3"
            " || self.model.imageShape[0] != 1"
            f" || ({_unchanged_cel(MXNET_COLOUR_AUGMENTATIONS)})"
        ),
        message=(
            "may have these with the framework MXNet only where model.imageShape has 3 channels: "
            + _listed(MXNET_COLOUR_AUGMENTATIONS)
        ),
        field="augmentation",
        holds=_colours_hold,
        explain=_explain_colours,
    ),
    Rule(
        cel=(
            "self.framework != 'MXNet' || !self.augmentation.randomResizedCrop"
            " || has(self.augmentation.minRandomAspectRatio)"
            " || double(self.augmentation.maxRandomAspectRatio) < 1.0"
        ),
        message=(
            "must be below 1 with the framework MXNet and randomResizedCrop but without"
            " minRandomAspectRatio"
        ),
        field="augmentation.maxRandomAspectRatio",
        holds=_ratios_hold,
        explain=_explain_ratios,
    ),
    Rule(
        cel=(
            "self.framework == 'MXNet' || !has(self.extraArgs)"
            f" || !self.extraArgs.exists(text, text.matches('{_MXNET_OPTION}'))"
        ),
        message=(
            "may have these only with the framework MXNet: "
            + ", ".join(f"--{option}" for option in MXNET_OPTIONS)
        ),
        field="extraArgs",
        holds=lambda training: training.framework == "MXNet" or not _of_mxnet(training),
        explain=lambda training: (
            f"{training.framework} has no {_of_mxnet(training)[0].partition('=')[0]}",
            "remove it, or write framework: MXNet",
        ),
    ),
)
