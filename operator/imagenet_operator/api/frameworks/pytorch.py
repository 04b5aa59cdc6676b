"""PyTorch 2, with networks of torchvision and the options of MXNet that it has too."""

from __future__ import annotations

from typing import Any

from imagenet_operator.api.base import Rule
from imagenet_operator.api.frameworks.descriptor import (
    Family,
    Framework,
    GPUCode,
    Images,
    LocalEnvironment,
    StrategySupport,
    families,
)


def _explain_devices(training: Any) -> tuple[str, str]:
    return (
        f"must be 1 or less with single, not {training.workers.gpus}: the process has one device",
        "write gpus: 1, or strategy: {distributedDataParallel: {}}",
    )


_ONE_DEVICE = Rule(
    cel="!has(self.strategy.single) || self.workers.gpus <= 1",
    message="must be 1 or less with the framework PyTorch and the strategy single",
    field="workers.gpus",
    holds=lambda training: training.strategy.single is None or training.workers.gpus <= 1,
    explain=_explain_devices,
)

_NO_KV_STORE = Rule(
    cel="!has(self.strategy.single) || self.strategy.single.kvStore == 'device'",
    message="must be absent with the framework PyTorch, which has no kvstore",
    field="strategy.single.kvStore",
    holds=lambda training: (
        training.strategy.single is None or training.strategy.single.kv_store == "device"
    ),
    hint="remove it",
)

PYTORCH = Framework(
    name="PyTorch",
    formats=("RecordIO", "TFRecord"),
    networks={
        **families(
            *("lenet", "mlp", "alexnet", "resnet", "vgg", "vgg-bn", "inception-v3", "densenet"),
            *("squeezenet", "mobilenet-v2"),
        ),
        # For images of 32 pixels.
        "resnet-9": Family(smallest=8, has_fixed_input=True, millions=(8,)),
    },
    network_prefix="timm/",
    strategies={
        "single": StrategySupport(options={"distribution_strategy": "single"}),
        "distributedDataParallel": StrategySupport(
            options={"distribution_strategy": "distributed_data_parallel"}
        ),
    },
    # Its wheels for CUDA run without a GPU and its driver, too.
    images=Images(cpu="imagenet-workloads-pytorch:0.1.0", gpu="imagenet-workloads-pytorch:0.1.0"),
    # From torch.cuda.get_arch_list() of the image's wheel (docs/images.md).
    gpu_code=GPUCode(machine_code=((7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0))),
    environment=LocalEnvironment("-pytorch", "PyTorch", "install-pytorch"),
    lacks_optimizers=("lbsgd",),
    lacks_augmentations=(
        "max_random_h",
        "max_random_s",
        "max_random_l",
        "max_random_rotate_angle",
        "max_random_shear_ratio",
    ),
    lacks_options=("monitor", "gc-type", "gc-threshold"),
    training_rules=(_ONE_DEVICE, _NO_KV_STORE),
    normalizes_on_gpu=True,
    memory_field="activation_checkpointing",
)
