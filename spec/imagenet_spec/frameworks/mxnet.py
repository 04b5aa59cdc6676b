"""MXNet 1.9.1; the resource's options and networks are those of its programs."""

from __future__ import annotations

from imagenet_spec.frameworks.descriptor import (
    FAMILIES,
    Framework,
    GPUCode,
    Images,
    LocalEnvironment,
    StrategySupport,
)
from imagenet_spec.names import VERSION

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
    images=Images(
        cpu=f"imagenet-workloads-mxnet:{VERSION}",
        gpu=f"imagenet-workloads-mxnet-cu112:{VERSION}",
    ),
    module="mxnet",
    without_dependencies="mxnet==1.9.1",  # forbids NumPy 2
    count_gpus="mxnet.context.num_gpus()",
    # The mxnet-cu112 wheel has machine code alone, as cuobjdump lists it (docs/images.md).
    gpu_code=GPUCode(machine_code=((5, 0), (6, 0), (7, 0), (8, 0), (8, 6))),
    lacks=(
        *("activation_checkpointing", "compile", "compile_cache", "image_sizes", "pretrained"),
        *("pretrained_url", "validation_size", "ema_decay", "mixup", "cutmix"),
    ),
    lacks_values={"optimizer": ("adamw",), "dtype": ("bfloat16",)},
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
    # It computes activations again in the backward pass.
    memory_variable="MXNET_BACKWARD_DO_MIRROR=1",
)

COMPRESSING = ("device", "dist_sync", "dist_device_sync", "dist_async")
"""Kvstores that can compress gradients on their way."""

IN_STEP = ("dist_sync", "dist_device_sync")
"""Kvstores whose servers sum one batch of every worker, in the order of arrival."""
