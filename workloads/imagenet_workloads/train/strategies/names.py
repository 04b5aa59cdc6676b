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
    """

    strategy: str
    peers: str


STRATEGIES = {
    "local": Names("single", "nobody"),
    "device": Names("single", "nobody"),
    "nccl": Names("single", "nobody"),
    "dist_sync": Names("synchronous", "parameter_server"),
    "dist_device_sync": Names("synchronous", "parameter_server"),
    "dist_async": Names("asynchronous", "parameter_server"),
    "horovod": Names("horovod", "horovod"),
}
