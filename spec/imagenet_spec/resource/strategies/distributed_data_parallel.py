"""The strategy `distributedDataParallel`: PyTorch's all-reduce, one process for each GPU."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from imagenet_spec.resource.strategies.fields import StrategyFields
from imagenet_spec.rules import Rule

_PROCESSES = "self.strategy.distributedDataParallel.processesPerWorker"


class DistributedDataParallel(StrategyFields):
    """Every process has a replica of the network; each step averages the gradients of all."""

    processes_per_worker: Annotated[int, Ge(1), Le(64)] | None = None
    """Processes of each worker. Absent: one for each GPU, or one on the CPU."""

    training_rules = (
        Rule(
            cel=(
                f"!has(self.strategy.distributedDataParallel) || !has({_PROCESSES})"
                f" || self.workers.gpus < 1 || {_PROCESSES} == self.workers.gpus"
            ),
            message="must be workers.gpus: each process has one GPU",
            field="strategy.distributedDataParallel.processesPerWorker",
            explain=lambda training: (
                f"{training.strategy.distributed_data_parallel.processes_per_worker} processes"
                f" cannot share {training.workers.gpus} GPUs: each has one",
                f"remove it, or write {training.workers.gpus}",
            ),
        ),
    )
    incidental = ("processesPerWorker",)
    devices_cel = (
        f"(self.workers.gpus > 0 ? self.workers.gpus : has({_PROCESSES}) ? {_PROCESSES} : 1)"
    )

    def processes(self, gpus: int) -> int:
        return max(gpus, 1) if self.processes_per_worker is None else self.processes_per_worker

    def devices(self, gpus: int) -> int:
        """Return the number of processes: each has one GPU, or computes on the CPU."""
        return gpus or self.processes(gpus)
