"""TensorFlow 2.15, with the options of MXNet that have the same meaning in it."""

from __future__ import annotations

from imagenet_operator.api.frameworks.descriptor import (
    Framework,
    GPUCode,
    Images,
    LocalEnvironment,
    StrategySupport,
    families,
)

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
        cpu="imagenet-workloads-tensorflow:0.1.0", gpu="imagenet-workloads-tensorflow-gpu:0.1.0"
    ),
    # From tf.sysconfig.get_build_info() of the GPU image's wheel (docs/images.md).
    gpu_code=GPUCode(machine_code=((5, 0), (6, 0), (7, 0), (7, 5)), ptx=(8, 0)),
    environment=LocalEnvironment("-tensorflow", "TensorFlow", "install-tensorflow"),
    lacks_optimizers=("lbsgd",),
    lacks_precisions=("bfloat16", "float16"),
    lacks_augmentations=(
        "max_random_h",
        "max_random_s",
        "max_random_l",
        "max_random_rotate_angle",
        "max_random_shear_ratio",
        "mixup",
        "cutmix",
    ),
    lacks_fields=(
        "activation_checkpointing",
        "compile",
        "compile_cache",
        "model.image_sizes",
        "model.pretrained",
        "model.validation_size",
        "optimizer.ema_decay",
    ),
    lacks_options=("dtype", "monitor", "gc-type", "gc-threshold"),
)
