"""Opens the training and validation data of the command line for TensorFlow. Imports it."""

import tensorflow as tf

from imagenet_spec.program.train import Options
from imagenet_workloads.data.batches import ImageBatch
from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.data.layouts import Normalized
from imagenet_workloads.data.ordered_data import open_ordered
from imagenet_workloads.data.synthetic_data import open_synthetic
from imagenet_workloads.data.worker_data import Data


def choose(options: Options, rank: int, ranks: int, accumulation_steps: int) -> Data:
    """Open the data; `accumulation_steps` batches make one update."""
    if options.data.benchmark:
        return open_synthetic(
            options, rank, ranks, accumulation_steps, _to_tensors, channels_first=False
        )

    def layout(inputs: Inputs) -> Normalized:
        return Normalized(inputs.mean, inputs.std, channels_first=False)

    return open_ordered(options, rank, ranks, accumulation_steps, layout, _to_tensors)


def _to_tensors(batch: ImageBatch) -> tuple[tf.Tensor, tf.Tensor]:
    # TensorFlow takes over aligned memory without a copy, and may read it later.
    images = tf.constant(batch.images.copy())
    return images, tf.constant(batch.labels, tf.float32)
