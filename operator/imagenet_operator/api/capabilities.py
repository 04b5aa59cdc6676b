"""What a framework lacks of the networks, optimizers and augmentations: rules for `spec.training`.

The resource has MXNet's options; TensorFlow has those that mean the same in it. One that it lacks
is refused here, since a program that ignored it would train something else than the manifest says.
"""

from __future__ import annotations

import re
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


def _changed(augmentation: Augmentation) -> list[str]:
    """Return which of MXNet's own fields differ from their defaults, as a manifest writes them."""
    fields = Augmentation.model_fields
    return [
        str(fields[name].alias)
        for name in MXNET_AUGMENTATIONS
        if getattr(augmentation, name) != fields[name].default
    ]


def _of_mxnet(training: Any) -> list[str]:
    """Return the extra arguments that are options of MXNet alone."""
    return [text for text in training.extra_args if re.match(_MXNET_OPTION, text)]


def _unchanged_cel() -> str:
    clauses = []
    for name in MXNET_AUGMENTATIONS:
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
        cel=f"self.framework == 'MXNet' || ({_unchanged_cel()})",
        message=(
            "may have these only with the framework MXNet: "
            + ", ".join(str(Augmentation.model_fields[name].alias) for name in MXNET_AUGMENTATIONS)
        ),
        field="augmentation",
        holds=lambda training: training.framework == "MXNet" or not _changed(training.augmentation),
        explain=lambda training: (
            f"{training.framework} has no {' and no '.join(_changed(training.augmentation))}",
            "remove it, or write framework: MXNet",
        ),
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
