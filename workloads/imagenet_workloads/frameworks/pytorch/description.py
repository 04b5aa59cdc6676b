"""The description of PyTorch: its strategies, and the options that it lacks.

Imports no PyTorch.
"""

from imagenet_spec.frameworks.pytorch import PYTORCH
from imagenet_workloads.frameworks.pytorch.networks import sizes_mistake
from imagenet_workloads.train.description import (
    FrameworkDescription,
    StrategyModules,
)

DESCRIPTION = FrameworkDescription(
    has=PYTORCH,
    library="torch",
    package=__package__,
    option="distribution_strategy",
    strategies={
        "single": StrategyModules("single", "none"),
        "distributed_data_parallel": StrategyModules("distributed_data_parallel", "ddp"),
    },
    contradiction=lambda options: sizes_mistake(options.model),
    exports=("safetensors", "torchscript", "onnx"),
)
