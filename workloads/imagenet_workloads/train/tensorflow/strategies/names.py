"""How the workers of each --distribution-strategy meet: the module of `train.peers`.

The one place that lists strategies: `options` takes the names from here, which are those of this
package's modules, too. Another strategy is another line, and touches no other one's file. No
TensorFlow.
"""

PEERS = {
    "mirrored": "nobody",
    "multi_worker_mirrored": "tf_config",
    "horovod": "horovod",
}
