"""The strategy `single`: one worker, in MXNet also with several GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.resource.frameworks import with_strategy
from imagenet_spec.resource.strategies.fields import StrategyFields, one_worker
from imagenet_spec.rules import Rule
from imagenet_spec.strategies import STRATEGIES

if TYPE_CHECKING:
    KvStore = str
else:
    KvStore = Literal[STRATEGIES["single"].kv_stores]


_ONE_GPU_A_PROCESS = [
    framework for framework, support in with_strategy("single").items() if support.one_gpu_a_process
]


def _explain_gpus(training: Any) -> tuple[str, str]:
    kinds = FRAMEWORKS[training.framework].strategies
    several = next(kind for kind in kinds if STRATEGIES[kind].is_elastic)
    return (
        f"must be 1 or less with single, not {training.workers.gpus}: the process has one device",
        f"write gpus: 1, or strategy: {{{several}: {{}}}}",
    )


class Single(StrategyFields):
    """One process without peers."""

    kv_store: KvStore = "device"
    """MXNet's kvstore: local sums the gradients of the GPUs on the host, device on the GPUs, nccl
    on the GPUs by NCCL. Other frameworks have none."""

    training_rules = (
        one_worker("single", "parameterServer", "distributedDataParallel"),
        Rule(
            cel=(
                f"!has(self.strategy.single) || !(self.framework in {_ONE_GPU_A_PROCESS})"
                " || self.workers.gpus <= 1"
            ),
            message=(
                f"must be 1 or less with the framework {' and '.join(_ONE_GPU_A_PROCESS)} and the"
                " strategy single"
            ),
            field="workers.gpus",
            explain=_explain_gpus,
        ),
        Rule(
            cel=(
                "!has(self.strategy.single) || self.strategy.single.kvStore != 'nccl'"
                " || self.workers.gpus > 0"
            ),
            message="can be nccl only with workers.gpus",
            field="strategy.single.kvStore",
            hint="write workers: {gpus: 1} or more, or kvStore: device",
        ),
    )
    frozen = ("kvStore",)
