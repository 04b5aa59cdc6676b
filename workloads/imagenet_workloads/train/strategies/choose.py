"""Finds the strategy that --kv-store names; see `names`."""

import importlib

from imagenet_workloads.train.options.groups import ClusterOptions
from imagenet_workloads.train.strategies.interface import Strategy
from imagenet_workloads.train.strategies.names import STRATEGIES


def join(options: ClusterOptions) -> Strategy:
    """Make the strategy; returns when every member has joined."""
    module = importlib.import_module(f"{__package__}.{STRATEGIES[options.kv_store].strategy}")
    strategy: Strategy = module.join(options)
    return strategy
