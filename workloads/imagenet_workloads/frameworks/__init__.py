"""The frameworks that train: one folder each, registered here by its description.

The folders have the same modules inside. A description imports no framework, which keeps parsers
and the processes of a parameter server cheap. `FrameworkDescription.load` imports the framework.
"""

from collections.abc import Mapping

from imagenet_workloads.frameworks.mxnet import description as mxnet
from imagenet_workloads.frameworks.pytorch import description as pytorch
from imagenet_workloads.frameworks.tensorflow import description as tensorflow
from imagenet_workloads.train.description import FrameworkDescription

FRAMEWORKS: Mapping[str, FrameworkDescription] = {
    module.DESCRIPTION.name: module.DESCRIPTION for module in (mxnet, tensorflow, pytorch)
}
"""By name, as in the resource and in result.json."""
