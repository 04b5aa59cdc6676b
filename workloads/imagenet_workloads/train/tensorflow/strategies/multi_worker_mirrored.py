"""MultiWorkerMirroredStrategy: copies of the network on the devices of several workers.

TF_CONFIG names the workers, and which of them this is:

    {"cluster": {"worker": ["host:port", …]}, "task": {"type": "worker", "index": 0}}
"""

import tensorflow as tf

from imagenet_workloads.train.peers.tf_config import apart
from imagenet_workloads.train.tensorflow.strategies.distributed import Distributed


def join() -> Distributed:
    """Join; returns when every worker has. It takes all GPUs that are visible."""
    told = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    workers = apart(told.cluster_spec().as_dict()["worker"])
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": workers}),
        task_type=told.task_type,
        task_id=told.task_id,
        rpc_layer="grpc",
    )
    distribution = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    return Distributed(distribution, int(told.task_id), len(workers))
