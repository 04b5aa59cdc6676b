"""`spec.training`: the network, its optimizer, and the pods that train it."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le, MaxLen

from imagenet_operator.api import capabilities
from imagenet_operator.api.augmentation import Augmentation
from imagenet_operator.api.base import Model, Rule, Unit
from imagenet_operator.api.fields import (
    ObjectName,
    PositiveInt,
    RelativePath,
    Replicas,
    Seconds,
    Template,
    Text,
    stays_below,
)
from imagenet_operator.api.frameworks import DEFAULT_FRAMEWORK, FrameworkName
from imagenet_operator.api.networks import Network
from imagenet_operator.api.optimizer import Optimizer
from imagenet_operator.api.options import NO_REPEATED_OPTION
from imagenet_operator.api.strategies import DEVICES_CEL, TRAINING_RULES, Strategy
from imagenet_operator.api.volumes import VolumeClaim


class Checkpoint(Model):
    """When checkpoints are saved, and the checkpoint from which training starts."""

    every_epochs: Annotated[PositiveInt, Unit("epochs")] = 1
    """Save a checkpoint after this many epochs."""

    every_seconds: Seconds | None = None
    """Save a checkpoint also within an epoch, this long after the last one."""

    keep: PositiveInt = 3
    """The number of checkpoints to keep; older ones are deleted."""

    init_from: RelativePath | None = None
    """The folder of a checkpoint on the output volume, of any job, from which training starts."""

    rules = (stays_below("initFrom"),)


class Workers(Model):
    """The pods that compute gradients."""

    replicas: Replicas = 1
    """The number of workers."""

    gpus: Annotated[int, Ge(0), Le(64)] = 0
    """GPUs of each worker (``nvidia.com/gpu``); with 0 it trains on the CPU."""

    template: Template | None = None
    """A PodTemplateSpec, merged strategically into the workers' pods."""


class Output(Model):
    """The volume of the results."""

    volume: VolumeClaim
    """The volume to which results are written, in ``jobs/NAME-UID``."""


class SecretReference(Model):
    """A Secret in the job's namespace."""

    name: ObjectName
    """The Secret's name."""


def devices(training: TrainingSpec) -> int:
    """Return the number of devices that share a batch: GPUs, or processes on CPUs."""
    return training.workers.replicas * training.strategy.devices(training.workers.gpus)


def _explain_batch(training: TrainingSpec) -> tuple[str, str]:
    count, batch = devices(training), training.batch_size
    below, above = batch // count * count, -(-batch // count) * count
    choices = f"{below} or {above}" if below else str(above)
    return f"{batch} is not divisible by {count} devices", f"write {choices}"


class TrainingSpec(Model):
    """The training: network, optimizer, strategy and workers."""

    framework: FrameworkName = DEFAULT_FRAMEWORK
    """The framework."""

    strategy: Strategy
    """The distribution strategy: exactly one."""

    model: Network
    """The network."""

    batch_size: Annotated[PositiveInt, Unit("images")]
    """Images of one optimizer step, over all devices of all workers; must be divisible by their
    number. In MXNet's own programs the option is that of one worker."""

    epochs: Annotated[PositiveInt, Unit("epochs")]
    """Passes over the training images."""

    data_threads: Annotated[int, Ge(1), Le(1024), Unit("threads")] = 4
    """Image decoding threads of each worker."""

    optimizer: Optimizer = Optimizer()
    """The update rule and the learning rate."""

    augmentation: Augmentation = Augmentation()
    """Random changes to training images."""

    checkpoint: Checkpoint = Checkpoint()
    """When checkpoints are saved."""

    workers: Workers = Workers()
    """The pods that train."""

    output: Output | None = None
    """The volume of the results. Absent: the dataset's volume."""

    image: Text | None = None
    """The image of the workers. Absent: the operator's image for CPU or GPU. It runs
    `imagenet-train`, or the `command` of the workers' template, which may be any program.
    Schedulers, servers and rendezvous always run the operator's image for CPU."""

    image_pull_secrets: Annotated[tuple[SecretReference, ...], MaxLen(16)] = ()
    """Image pull Secrets of every pod."""

    extra_args: Annotated[tuple[Text, ...], MaxLen(64)] = ()
    """Further options of ``imagenet-train``, for the workers. An option that a field sets is
    rejected, and so are all options beside the `command` of a template."""

    rules = (
        Rule(
            cel=(
                "self.workers.replicas < 1"
                f" || self.batchSize % (self.workers.replicas * {DEVICES_CEL}) == 0"
            ),
            message=(
                "must be divisible by the number of devices: workers.replicas times workers.gpus "
                "(1 if none, or"
                " the slots of Horovod)"
            ),
            field="batchSize",
            holds=lambda training: training.batch_size % devices(training) == 0,
            explain=_explain_batch,
        ),
        NO_REPEATED_OPTION,
        *capabilities.RULES,
        *TRAINING_RULES,
    )
