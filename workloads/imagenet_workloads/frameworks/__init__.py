"""The frameworks that train: one folder each, registered here by its description.

The folders have the same modules inside. A description imports no framework, so that parsers and
the processes of a parameter server stay cheap; `FrameworkDescription.load` imports the others.
"""

from collections.abc import Mapping

from imagenet_workloads.frameworks.mxnet import description as mxnet
from imagenet_workloads.frameworks.tensorflow import description as tensorflow
from imagenet_workloads.train.options.description import FrameworkDescription

FRAMEWORKS: Mapping[str, FrameworkDescription] = {
    described.name: described for described in (mxnet.DESCRIPTION, tensorflow.DESCRIPTION)
}
"""By name, as in the resource and in result.json."""

DEFAULT = mxnet.DESCRIPTION.name
"""The framework of a result.json that names none."""
