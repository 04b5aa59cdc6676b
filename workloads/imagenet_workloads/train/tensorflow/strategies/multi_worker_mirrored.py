"""MultiWorkerMirroredStrategy: copies of the network on the devices of several workers.

TF_CONFIG names the workers, and which of them this is:

    {"cluster": {"worker": ["host:port", …]}, "task": {"type": "worker", "index": 0}}
"""

import tensorflow as tf

from imagenet_workloads.train.tensorflow.strategies.distributed import Distributed


def join() -> Distributed:
    """Join; returns when every worker has. It takes all GPUs that are visible."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    distribution = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    workers = len(resolver.cluster_spec().as_dict()["worker"])
    return Distributed(distribution, int(resolver.task_id), workers)
