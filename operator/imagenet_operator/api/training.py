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
    """When the state of training is saved, and which state training starts from."""

    every_epochs: Annotated[PositiveInt, Unit("epochs")] = 1
    """Save after every so many epochs."""

    every_seconds: Seconds | None = None
    """Save also within an epoch, this long after the last checkpoint."""

    keep: PositiveInt = 3
    """Checkpoints that are kept; older ones are removed."""

    init_from: RelativePath | None = None
    """A checkpoint folder on the output volume, of this job or another, to start from."""

    rules = (stays_below("initFrom"),)


class Workers(Model):
    """The pods that compute gradients."""

    replicas: Replicas = 1
    """How many workers train."""

    gpus: Annotated[int, Ge(0), Le(64)] = 0
    """GPUs of each worker (``nvidia.com/gpu``); with 0 it trains on the CPU."""

    template: Template | None = None
    """A PodTemplateSpec, merged strategically into the workers' pods."""


class Output(Model):
    """Where results go."""

    volume: VolumeClaim
    """The volume that results are written to, under ``jobs/NAME-UID``."""


class SecretReference(Model):
    """A Secret in the job's namespace."""

    name: ObjectName
    """The Secret's name."""


def devices(training: TrainingSpec) -> int:
    """Return how many devices share a batch: every GPU, or every process on a CPU."""
    return training.workers.replicas * training.strategy.devices(training.workers.gpus)


def _explain_batch(training: TrainingSpec) -> tuple[str, str]:
    count, batch = devices(training), training.batch_size
    below, above = batch // count * count, -(-batch // count) * count
    choices = f"{below} or {above}" if below else str(above)
    return f"{batch} does not divide by {count} devices", f"write {choices}"


class TrainingSpec(Model):
    """What is trained, on how many machines, and for how long."""

    framework: FrameworkName = DEFAULT_FRAMEWORK
    """The framework that trains."""

    strategy: Strategy
    """How workers train together: exactly one."""

    model: Network
    """The network."""

    batch_size: Annotated[PositiveInt, Unit("images")]
    """Images of one optimizer step, over all devices of all workers; must divide evenly. In MXNet's
    own programs the option counts one worker."""

    epochs: Annotated[PositiveInt, Unit("epochs")]
    """Passes over the training images."""

    data_threads: Annotated[int, Ge(1), Le(1024), Unit("threads")] = 4
    """Threads of each worker that decode images."""

    optimizer: Optimizer = Optimizer()
    """The update rule and the learning rate."""

    augmentation: Augmentation = Augmentation()
    """Random changes to training images."""

    checkpoint: Checkpoint = Checkpoint()
    """When training is saved."""

    workers: Workers = Workers()
    """The pods that train."""

    output: Output | None = None
    """Where results go. Absent: the dataset's volume."""

    image: Text | None = None
    """The image of the workers. Absent: the operator's own for CPU or GPU. It runs
    `imagenet-train`, or what the workers' template gives as `command`, by which any program can be
    a worker. Schedulers, servers and rendezvous always run the operator's own for CPU."""

    image_pull_secrets: Annotated[tuple[SecretReference, ...], MaxLen(16)] = ()
    """Secrets for pulling images, for every pod of the job."""

    extra_args: Annotated[tuple[Text, ...], MaxLen(64)] = ()
    """Further options of ``imagenet-train``, for the workers. One that a field here already sets is
    refused, and so is any beside a command of one's own."""

    rules = (
        Rule(
            cel=(
                "self.workers.replicas < 1"
                f" || self.batchSize % (self.workers.replicas * {DEVICES_CEL}) == 0"
            ),
            message=(
                "must divide by the devices: workers.replicas times workers.gpus (1 if none, or"
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
