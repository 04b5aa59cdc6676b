"""The strategy `single`: one worker, in MXNet also with several GPUs."""

from __future__ import annotations

from typing import Literal

from imagenet_operator.api.base import Rule
from imagenet_operator.api.strategies.fields import StrategyFields, one_worker


class Single(StrategyFields):
    """One process without peers."""

    kv_store: Literal["local", "device", "nccl"] = "device"
    """MXNet's kvstore: local sums the gradients of the GPUs on the host, device on the GPUs, nccl
    on the GPUs by NCCL. Other frameworks have none."""

    training_rules = (
        one_worker("single", "parameterServer", "distributedDataParallel"),
        Rule(
            cel=(
                "!has(self.strategy.single) || self.strategy.single.kvStore != 'nccl'"
                " || self.workers.gpus > 0"
            ),
            message="can be nccl only with workers.gpus",
            field="strategy.single.kvStore",
            holds=lambda training: (
                training.strategy.single is None
                or training.strategy.single.kv_store != "nccl"
                or training.workers.gpus > 0
            ),
            hint="write workers: {gpus: 1} or more, or kvStore: device",
        ),
    )
    frozen = ("kvStore",)
