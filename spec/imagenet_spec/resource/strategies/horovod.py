"""The strategy `horovod`: all-reduce over NCCL or, on CPUs, Gloo; one process a slot."""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge, Le

from imagenet_spec.resource.base import Model
from imagenet_spec.resource.fields import Template
from imagenet_spec.resource.frameworks import with_strategy
from imagenet_spec.resource.strategies.fields import StrategyFields
from imagenet_spec.rules import Rule

_SLOTS = "self.strategy.horovod.slotsPerWorker"
_ONE_GPU_A_PROCESS = [
    framework
    for framework, support in with_strategy("horovod").items()
    if support.one_gpu_a_process
]
_NOT_GIVEN = f"!has(self.strategy.horovod) || !has({_SLOTS})"


def _explain_slots(training: Any) -> tuple[str, str]:
    gpus, slots = training.workers.gpus, training.strategy.horovod.slots_per_worker
    divisors = [str(number) for number in range(1, gpus + 1) if gpus % number == 0]
    return f"{gpus} GPUs are not divisible by {slots} slots", f"write one of {', '.join(divisors)}"


class Rendezvous(Model):
    """The pod where the processes of an attempt exchange their addresses."""

    template: Template | None = None
    """A PodTemplateSpec, merged strategically into its pod."""


class Horovod(StrategyFields):
    """Every slot of every worker is a process; each step sums the gradients of all of them."""

    slots_per_worker: Annotated[int, Ge(1), Le(64)] | None = None
    """Processes of each worker, with an equal number of GPUs. Absent: one for each GPU, or one on
    the CPU."""

    rendezvous: Rendezvous = Rendezvous()
    """The rendezvous of the slots."""

    training_rules = (
        Rule(
            cel=f"{_NOT_GIVEN} || {_SLOTS} < 1 || self.workers.gpus % {_SLOTS} == 0",
            message="must divide workers.gpus, so that every slot gets the same number",
            field="strategy.horovod.slotsPerWorker",
            explain=_explain_slots,
        ),
        Rule(
            # If they are not divisible, the rule above reports it.
            cel=(
                f"{_NOT_GIVEN} || {_SLOTS} < 1 || !(self.framework in {_ONE_GPU_A_PROCESS})"
                f" || self.workers.gpus < 1 || self.workers.gpus % {_SLOTS} != 0"
                f" || {_SLOTS} == self.workers.gpus"
            ),
            message=(
                f"must be workers.gpus with {' and '.join(_ONE_GPU_A_PROCESS)}, whose processes"
                " have one GPU each"
            ),
            field="strategy.horovod.slotsPerWorker",
            hint="remove it",
        ),
    )
    incidental = ("slotsPerWorker", "rendezvous")
    devices_cel = (
        f"(has({_SLOTS}) && {_SLOTS} > self.workers.gpus ? {_SLOTS}"
        " : self.workers.gpus > 0 ? self.workers.gpus : 1)"
    )

    def processes(self, gpus: int) -> int:
        return max(gpus, 1) if self.slots_per_worker is None else self.slots_per_worker

    def devices(self, gpus: int) -> int:
        """Return the greater of slots and GPUs: a slot may have several GPUs, or none."""
        return max(gpus, self.processes(gpus))
