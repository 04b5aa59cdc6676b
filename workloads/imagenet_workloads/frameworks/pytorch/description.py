"""The description of PyTorch: its strategies, and the options that it lacks.

Imports no PyTorch.
"""

from imagenet_spec.frameworks.pytorch import PYTORCH
from imagenet_workloads.frameworks.pytorch.networks import sizes_mistake
from imagenet_workloads.train.description import FrameworkDescription

DESCRIPTION = FrameworkDescription(
    has=PYTORCH,
    library="torch",
    package=__package__,
    option="distribution_strategy",
    strategies={
        "single": "single",
        "distributed_data_parallel": "distributed_data_parallel",
    },
    contradiction=lambda options: sizes_mistake(options.model),
    exports=("safetensors", "torchscript", "onnx"),
    cuda=lambda torch: torch.version.cuda,
)
