"""The registry of the frameworks: one descriptor each, by name.

A framework is a module with its `Framework` (`descriptor`) and one entry here; a folder of the
workloads trains with it. From the descriptor follow the values of `spec.training.framework`, the
networks, the rules for what it lacks, the images of pods and the environment of local runs.
"""

from collections.abc import Mapping
from types import MappingProxyType

from imagenet_spec.frameworks.descriptor import Framework
from imagenet_spec.frameworks.mxnet import MXNET
from imagenet_spec.frameworks.pytorch import PYTORCH
from imagenet_spec.frameworks.tensorflow import TENSORFLOW

FRAMEWORKS: Mapping[str, Framework] = MappingProxyType(
    {framework.name: framework for framework in (MXNET, TENSORFLOW, PYTORCH)}
)
"""`spec.training.framework` → its descriptor."""

DEFAULT_FRAMEWORK = MXNET.name
"""The default framework, and that of a result.json without one."""

DEFAULT_FORMAT = MXNET.formats[0]
"""The default dataset format."""
