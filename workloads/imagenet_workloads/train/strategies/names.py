"""Which module of this package stands behind each --kv-store, and how its workers meet.

The one place that lists strategies: `options` takes the names from here, `choose` finds the module,
and `worker` the module of `peers`. Another strategy is another line, and touches no other one's.
Imports no framework.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """Where a --kv-store's code is.

    Attributes:
        strategy: the module of `strategies` whose `join` makes the strategy.
        peers: the module of `peers` whose `find` says whom a worker waits for.
        compresses: whether gradients can be compressed on their way.
    """

    strategy: str
    peers: str
    compresses: bool = False


STRATEGIES = {
    "local": Names("single", "nobody"),
    "device": Names("single", "nobody", compresses=True),
    "nccl": Names("single", "nobody"),
    "dist_sync": Names("synchronous", "parameter_server", compresses=True),
    "dist_device_sync": Names("synchronous", "parameter_server", compresses=True),
    "dist_async": Names("asynchronous", "parameter_server", compresses=True),
    "horovod": Names("horovod", "horovod"),
}
