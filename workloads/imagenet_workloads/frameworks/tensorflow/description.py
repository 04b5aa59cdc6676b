"""The description of TensorFlow: its strategies, and the options that it lacks.

Imports no TensorFlow.
"""

import os

from imagenet_spec.frameworks.tensorflow import TENSORFLOW
from imagenet_workloads.train.description import FrameworkDescription, leave_out

# Keras imports these if it finds them, for parts that training does not use.
UNUSED = ("scipy", "sklearn", "setuptools")


def before_import() -> None:
    """Make the import cheaper, without messages about the processor."""
    leave_out(UNUSED)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


DESCRIPTION = FrameworkDescription(
    has=TENSORFLOW,
    library="tensorflow",
    package=__package__,
    option="distribution_strategy",
    strategies={
        "mirrored": "mirrored",
        "multi_worker_mirrored": "multi_worker_mirrored",
        "horovod": "horovod",
    },
    before_import=before_import,
    exports=("safetensors", "onnx"),
    cuda=lambda tensorflow: tensorflow.sysconfig.get_build_info().get("cuda_version"),
)
