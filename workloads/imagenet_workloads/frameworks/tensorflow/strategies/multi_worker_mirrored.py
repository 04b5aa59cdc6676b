"""MultiWorkerMirroredStrategy: copies of the network on the devices of several workers.

TF_CONFIG names the workers and this worker's index:

    {"cluster": {"worker": ["host:port", …]}, "task": {"type": "worker", "index": 0}}
"""

import tensorflow as tf
from tensorflow.python.eager import context

from imagenet_workloads.frameworks.tensorflow.strategies.mirrored import Distributed


def join() -> Distributed:
    """Join; return when every worker has joined. It uses all visible GPUs."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    workers = resolver.cluster_spec().num_tasks("worker")
    # TensorFlow must wait for its peers in a sum, not in its coordination service. The service
    # handles SIGTERM itself and waits while it holds Python's lock. If peers do not join, neither a
    # signal handler nor a thread could end the worker. A sum waits without the lock. Without the
    # service's heartbeats, a thread of TensorFlow checks the peers every 30 s. It detects a peer
    # that does not answer. A peer that ends breaks the current sum, with or without it.
    #
    # There is no public function for this. The strategy starts the service unless the context is
    # configured already. The empty name means no service, as in TensorFlow's own tests.
    context.context().configure_coordination_service(service_type="")
    distribution = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    return Distributed(distribution, int(resolver.task_id), workers)
