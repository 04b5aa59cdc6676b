"""PyTorch 2, with networks of torchvision and the options of MXNet that it has too."""

from __future__ import annotations

from imagenet_spec.frameworks.descriptor import (
    LACKS_OF_MXNET,
    Family,
    Framework,
    GPUCode,
    Images,
    LocalEnvironment,
    StrategySupport,
    families,
)
from imagenet_spec.names import VERSION
from imagenet_spec.program.train import ONLY_IMAGE_RECORD_ITER

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
        "single": StrategySupport(
            options={"distribution_strategy": "single"}, one_gpu_a_process=True
        ),
        "distributedDataParallel": StrategySupport(
            options={"distribution_strategy": "distributed_data_parallel"}
        ),
    },
    # Its wheels for CUDA run without a GPU and its driver, too.
    images=Images(
        cpu=f"imagenet-workloads-pytorch:{VERSION}", gpu=f"imagenet-workloads-pytorch:{VERSION}"
    ),
    # From torch.cuda.get_arch_list() of the image's wheel (docs/images.md).
    gpu_code=GPUCode(machine_code=((7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0))),
    module="torch",
    count_gpus="torch.cuda.device_count()",
    environment=LocalEnvironment("-pytorch", "PyTorch", "install-pytorch"),
    lacks=(*ONLY_IMAGE_RECORD_ITER, "monitor", "gc_type", "gc_threshold"),
    lacks_values=LACKS_OF_MXNET,
    normalizes_on_gpu=True,
    memory_option="activation_checkpointing",
)
