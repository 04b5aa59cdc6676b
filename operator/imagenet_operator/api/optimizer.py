"""`spec.training.optimizer`: MXNet's options of the optimizer and its learning rate."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Gt, Le, MaxLen

from imagenet_operator.api.base import DefaultWhenRead, Model, Rule, Unit
from imagenet_operator.api.fields import Count, Fraction, PositiveInt
from imagenet_spec.program.train import OptimizerName, Scaling, Schedule, WarmupStrategy


class Optimizer(Model):
    """The update rule and the learning rate over the epochs."""

    name: OptimizerName = "sgd"
    """The optimizer. adam adds weight decay to the gradient, adamw to the update (Loshchilov and
    Hutter 2019). lamb scales the update of each layer (You et al. 2020)."""

    learning_rate: Annotated[float, Gt(0), Le(1000)] = 0.1
    """The learning rate after warm-up, before the first step."""

    learning_rate_scaling: Scaling = "none"
    """The scaling of the learning rate with the batch. The factor is 1, the images of an update
    divided by `learningRateScalingBase`, or its square root. An update has `batchSize` images, with
    dist_async a worker's part of them."""

    learning_rate_scaling_base: Annotated[PositiveInt, Unit("images")] = 256
    """The batch size for which `learningRate` was chosen."""

    momentum: Annotated[float, Ge(0), Le(1)] = 0.9
    """The momentum of sgd, nag and lbsgd; other optimizers ignore it."""

    weight_decay: Annotated[float, Ge(0), Le(1)] = 0.0001
    """The weight of the L2 penalty."""

    learning_rate_factor: Annotated[float, Gt(0), Le(1)] = 0.1
    """The factor of the learning rate at each of `stepEpochs`."""

    step_epochs: Annotated[tuple[PositiveInt, ...], MaxLen(64), Unit("epochs")] = (30, 60)
    """The epochs at which the schedule step reduces the learning rate."""

    warmup_epochs: Annotated[Count, Unit("epochs")] = 5
    """Epochs over which the learning rate rises from near zero; 0 turns warm-up off."""

    schedule: Annotated[Schedule, DefaultWhenRead()] = "step"
    """The fall of the learning rate after warm-up. `step` falls at `stepEpochs`. `cosine` and
    `polynomial` fall to 0 at the end of the last epoch."""

    power: Annotated[float, Gt(0), Le(100), DefaultWhenRead()] = 2.0
    """The power of the schedule polynomial."""

    ema_decay: Fraction | None = None
    """The decay of an exponential moving average of the weights, such as 0.9999. Validation and the
    exported model use the average. Absent: no average."""

    warmup_strategy: WarmupStrategy = "linear"
    """The shape of the rise; lars is layer-wise and needs the optimizer lbsgd."""

    rules = (
        Rule(
            cel=(
                "self.stepEpochs.isSorted()"
                " && self.stepEpochs.all(one, self.stepEpochs.exists_one(other, other == one))"
            ),
            message="must rise from one epoch to the next",
            field="stepEpochs",
            holds=lambda optimizer: (
                list(optimizer.step_epochs) == sorted(set(optimizer.step_epochs))
            ),
            explain=lambda optimizer: (
                f"must rise from one epoch to the next, not {list(optimizer.step_epochs)}",
                f"write {sorted(set(optimizer.step_epochs))}",
            ),
        ),
        Rule(
            cel="self.warmupStrategy != 'lars' || self.name == 'lbsgd'",
            message="can be lars only with the optimizer lbsgd",
            field="warmupStrategy",
            holds=lambda optimizer: (
                optimizer.warmup_strategy != "lars" or optimizer.name == "lbsgd"
            ),
            hint="write linear, or name: lbsgd",
        ),
    )
