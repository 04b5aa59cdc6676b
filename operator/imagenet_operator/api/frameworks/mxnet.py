"""MXNet 1.9.1; the resource's options and networks are those of its programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from imagenet_operator.api.base import Rule
from imagenet_operator.api.frameworks.descriptor import (
    FAMILIES,
    Framework,
    GPUCode,
    Images,
    LocalEnvironment,
    StrategySupport,
)
from imagenet_spec.program.train import READERS


def _ratios_hold(training: Any) -> bool:
    varied = training.augmentation
    return (
        not varied.random_resized_crop
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
    holds=_ratios_hold,
    explain=_explain_ratios,
)

_FLOAT16 = ("MXNet computes float16 on GPUs only", "write float32, or workers.gpus")

_FLOAT16_NEEDS_GPUS = Rule(
    cel="!has(self.precision) || self.precision != 'float16' || self.workers.gpus > 0",
    message="cannot be float16 with the framework MXNet and without workers.gpus",
    field="precision",
    holds=lambda training: training.precision != "float16" or training.workers.gpus > 0,
    explain=lambda _: _FLOAT16,
)

_COMPRESSING = ("device", "dist_sync", "dist_device_sync", "dist_async")
"""Kvstores that can compress gradients."""


def _contradictions(training: Any, given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    store = getattr(training.strategy.chosen, "kv_store", training.strategy.kind)
    compression = given.get("--gc-type", "none")
    if compression != "none" and training.deterministic:
        remedy = "remove it, or deterministic"
        yield f"--gc-type {compression}: its rounding errors are in no checkpoint", remedy
    if compression != "none" and store not in _COMPRESSING:
        remedy = f"remove it, or write kvStore: {' or '.join(_COMPRESSING)}"
        yield f"--gc-type {compression}: {store} does not compress gradients", remedy
    if given.get("--dtype") == "float16" and not training.workers.gpus:
        reason, remedy = _FLOAT16
        yield f"--dtype float16: {reason}", remedy


MXNET = Framework(
    name="MXNet",
    formats=("RecordIO",),
    networks=FAMILIES,
    strategies={
        # Their field kvStore becomes the option --kv-store.
        "parameterServer": StrategySupport(),
        "single": StrategySupport(),
        "horovod": StrategySupport(
            options={"kv_store": "horovod"},
            environment=LocalEnvironment("-horovod", "Horovod with MXNet", "install-horovod"),
        ),
    },
    images=Images(cpu="imagenet-workloads-mxnet:0.1.0", gpu="imagenet-workloads-mxnet-cu112:0.1.0"),
    # The mxnet-cu112 wheel has machine code alone, as cuobjdump lists it (docs/images.md).
    gpu_code=GPUCode(machine_code=((5, 0), (6, 0), (7, 0), (8, 0), (8, 6))),
    readers=READERS,
    lacks_optimizers=("adamw",),
    lacks_precisions=("bfloat16",),
    lacks_augmentations=("mixup", "cutmix"),
    lacks_fields=(
        "activation_checkpointing",
        "compile",
        "compile_cache",
        "model.image_sizes",
        "model.pretrained",
        "model.validation_size",
        "optimizer.ema_decay",
    ),
    # With images of 1 channel it fails at the first batch; pca_noise writes beyond the image's end.
    lacks_grey_augmentations=(
        "max_random_h",
        "max_random_s",
        "max_random_l",
        "brightness",
        "contrast",
        "saturation",
        "pca_noise",
    ),
    contradictions=_contradictions,
    training_rules=(_RATIOS, _FLOAT16_NEEDS_GPUS),
    memory_variable="MXNET_BACKWARD_DO_MIRROR=1",
)
