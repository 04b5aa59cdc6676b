"""The description of PyTorch: its strategies, and the options that it lacks.

Imports no PyTorch.
"""

from imagenet_workloads.frameworks.pytorch.networks import sizes_mistake
from imagenet_workloads.train.options.description import (
    FrameworkDescription,
    StrategyModules,
)

DESCRIPTION = FrameworkDescription(
    name="PyTorch",
    library="torch",
    package=__package__,
    option="distribution_strategy",
    strategies={
        "single": StrategyModules("single", "none"),
        "distributed_data_parallel": StrategyModules("distributed_data_parallel", "ddp"),
    },
    lacks={
        "output": ("monitor",),
        "cluster": ("gc_type", "gc_threshold"),
        "augmentation": (
            "max_random_h",
            "max_random_s",
            "max_random_l",
            "max_random_rotate_angle",
            "max_random_shear_ratio",
        ),
    },
    lacks_values={
        "optimizer": {"warmup_strategy": "lars"},
        "data": {"reader": "ImageRecordIter"},
    },
    contradiction=lambda options: sizes_mistake(options.model),
    memory_option="activation_checkpointing",
    exports=("safetensors", "torchscript", "onnx"),
)
