"""MultiWorkerMirroredStrategy: copies of the network on the devices of several workers.

TF_CONFIG names the workers, and which of them this is:

    {"cluster": {"worker": ["host:port", …]}, "task": {"type": "worker", "index": 0}}
"""

import tensorflow as tf
from tensorflow.python.eager import context

from imagenet_workloads.frameworks.tensorflow.strategies.mirrored import Distributed
from imagenet_workloads.rendezvous.tf_config import apart


def join() -> Distributed:
    """Join; returns when every worker has. It takes all GPUs that are visible."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    workers = apart(resolver.cluster_spec().as_dict()["worker"])
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": workers}),
        task_type=resolver.task_type,
        task_id=resolver.task_id,
        rpc_layer="grpc",
    )
    _wait_where_signals_are_heard()
    distribution = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    return Distributed(distribution, int(resolver.task_id), len(workers))


def _wait_where_signals_are_heard() -> None:
    """Have TensorFlow wait for the others in a sum, and not in its coordination service.

    The service takes SIGTERM for itself, and waits with Python's lock held: neither a signal's
    handler nor a thread could end a worker whose others never come. A sum waits without the lock.

    In place of the service's heartbeats a thread of TensorFlow's then asks the others every 30 s
    whether they live. That is for who falls silent: whoever ends breaks the sum under way, as ever.
    """
    # Not public, and there is no public way: the strategy asks for the service unless the context
    # has been told about one already. The empty name is none; TensorFlow's own tests tell it so.
    context.context().configure_coordination_service(service_type="")
