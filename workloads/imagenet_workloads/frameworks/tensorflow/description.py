"""The description of TensorFlow: its strategies, and the options that it lacks.

Imports no TensorFlow.
"""

import os

from imagenet_workloads.train.options.description import (
    FrameworkDescription,
    StrategyModules,
    leave_out,
)

# Keras imports these if it finds them, for parts that training does not use.
UNUSED = ("scipy", "sklearn", "setuptools")


def before_import() -> None:
    """Make the import cheaper, without messages about the processor."""
    leave_out(UNUSED)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


DESCRIPTION = FrameworkDescription(
    name="TensorFlow",
    library="tensorflow",
    package=__package__,
    option="distribution_strategy",
    strategies={
        "mirrored": StrategyModules("mirrored", "none"),
        "multi_worker_mirrored": StrategyModules("multi_worker_mirrored", "tf_config"),
        "horovod": StrategyModules("horovod", "horovod"),
    },
    lacks={
        "model": (
            *("activation_checkpointing", "compile", "compile_cache", "dtype", "pretrained"),
            *("image_sizes", "validation_size"),
        ),
        "output": ("monitor",),
        "cluster": ("gc_type", "gc_threshold"),
        "augmentation": (
            "max_random_h",
            "max_random_s",
            "max_random_l",
            "max_random_rotate_angle",
            "max_random_shear_ratio",
            "mixup",
            "cutmix",
        ),
        "optimizer": ("ema_decay",),
        "data": ("data_train_idx", "data_val_idx"),
    },
    lacks_values={
        "optimizer": {"warmup_strategy": "lars"},
        "data": {"reader": "ImageRecordIter"},
    },
    before_import=before_import,
    exports=("safetensors", "onnx"),
)
