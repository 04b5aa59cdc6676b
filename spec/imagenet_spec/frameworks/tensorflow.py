"""TensorFlow 2.15, with the options of MXNet that have the same meaning in it."""

from __future__ import annotations

from imagenet_spec.frameworks.descriptor import (
    LACKS_OF_MXNET,
    Framework,
    GPUCode,
    Images,
    LocalEnvironment,
    StrategySupport,
    families,
)
from imagenet_spec.names import VERSION
from imagenet_spec.program.train import ONLY_IMAGE_RECORD_ITER

TENSORFLOW = Framework(
    name="TensorFlow",
    formats=("TFRecord",),
    networks=families(
        *("lenet", "mlp", "alexnet", "resnet", "vgg", "inception-v3", "densenet", "squeezenet"),
        "mobilenet",
    ),
    strategies={
        "horovod": StrategySupport(
            options={"distribution_strategy": "horovod"}, one_gpu_a_process=True
        ),
        "mirrored": StrategySupport(options={"distribution_strategy": "mirrored"}),
        "multiWorkerMirrored": StrategySupport(
            options={"distribution_strategy": "multi_worker_mirrored"}
        ),
    },
    images=Images(
        cpu=f"imagenet-workloads-tensorflow:{VERSION}",
        gpu=f"imagenet-workloads-tensorflow-gpu:{VERSION}",
    ),
    # From tf.sysconfig.get_build_info() of the GPU image's wheel (docs/images.md).
    gpu_code=GPUCode(machine_code=((5, 0), (6, 0), (7, 0), (7, 5)), ptx=(8, 0)),
    module="tensorflow",
    needs_python="3.11",
    count_gpus="len(tensorflow.config.list_physical_devices('GPU'))",
    environment=LocalEnvironment("-tensorflow", "TensorFlow", "install-tensorflow"),
    lacks=(
        *("activation_checkpointing", "compile", "compile_cache", "image_sizes", "pretrained"),
        *("pretrained_url", "validation_size", "ema_decay"),
        *ONLY_IMAGE_RECORD_ITER,
        *("mixup", "cutmix"),
        *("dtype", "monitor", "gc_type", "gc_threshold", "data_train_idx", "data_val_idx"),
    ),
    lacks_values=LACKS_OF_MXNET,
)
