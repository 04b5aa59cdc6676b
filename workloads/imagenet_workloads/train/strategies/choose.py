"""Picks the strategy that --kv-store names, and checks that it fits this process's role."""

from imagenet_workloads.train.options.groups import ClusterOptions
from imagenet_workloads.train.strategies.asynchronous import Asynchronous
from imagenet_workloads.train.strategies.exchange import Compression
from imagenet_workloads.train.strategies.interface import Strategy
from imagenet_workloads.train.strategies.single import Single
from imagenet_workloads.train.strategies.synchronous import Synchronous


def join(options: ClusterOptions) -> Strategy:
    """Make the strategy; over a parameter server, returns when every member has joined."""
    compression = None
    if options.gc_type != "none":
        compression = Compression(options.gc_type, options.gc_threshold)
    if not options.kv_store.startswith("dist"):
        return Single(options.kv_store, compression)
    if options.kv_store == "dist_async":
        return Asynchronous(options.kv_store, compression)
    return Synchronous(options.kv_store, compression)
