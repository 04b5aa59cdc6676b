"""What MXNet alone refuses: rules for `spec.training`, and for options beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from imagenet_spec.frameworks.mxnet import COMPRESSING
from imagenet_spec.resource.frameworks.rules import FrameworkRules
from imagenet_spec.rules import Rule


def _explain_ratios(training: Any) -> tuple[str, str]:
    change = f"{training.augmentation.max_random_aspect_ratio:g}"
    return (
        f"{change} without minRandomAspectRatio is a change, to ratios from 1 - {change}, which is"
        " not above 0",
        "write minRandomAspectRatio: 0.75 too, or a change below 1",
    )


_RATIOS = Rule(
    cel=(
        "!self.augmentation.randomResizedCrop || has(self.augmentation.minRandomAspectRatio)"
        " || double(self.augmentation.maxRandomAspectRatio) < 1.0"
    ),
    message=(
        "must be below 1 with the framework MXNet and randomResizedCrop but without"
        " minRandomAspectRatio"
    ),
    field="augmentation.maxRandomAspectRatio",
    explain=_explain_ratios,
)

_FLOAT16 = ("MXNet computes float16 on GPUs only", "write float32, or workers.gpus")

_FLOAT16_NEEDS_GPUS = Rule(
    cel="!has(self.precision) || self.precision != 'float16' || self.workers.gpus > 0",
    message="cannot be float16 with the framework MXNet and without workers.gpus",
    field="precision",
    explain=lambda _: _FLOAT16,
)


def _contradictions(training: Any, given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    store = getattr(training.strategy.chosen, "kv_store", training.strategy.kind)
    compression = given.get("--gc-type", "none")
    if compression != "none" and training.deterministic:
        remedy = "remove it, or deterministic"
        yield f"--gc-type {compression}: its rounding errors are in no checkpoint", remedy
    if compression != "none" and store not in COMPRESSING:
        remedy = f"remove it, or write kvStore: {' or '.join(COMPRESSING)}"
        yield f"--gc-type {compression}: {store} does not compress gradients", remedy
    if given.get("--dtype") == "float16" and not training.workers.gpus:
        reason, remedy = _FLOAT16
        yield f"--dtype float16: {reason}", remedy


RULES = FrameworkRules((_RATIOS, _FLOAT16_NEEDS_GPUS), _contradictions)
