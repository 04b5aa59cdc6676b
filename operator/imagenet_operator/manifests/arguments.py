"""The arguments of a worker: options of `imagenet-train` from the resource's fields.

Strategies add their own options, such as the kvstore. The options are those of MXNet's
example/image-classification. An option without a value here has the same default in the resource
and in the program, which contract tests check.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from imagenet_operator.api import ImageNetJob, quantities
from imagenet_operator.api.augmentation import Augmentation
from imagenet_operator.api.frameworks import FRAMEWORKS
from imagenet_operator.api.optimizer import Optimizer
from imagenet_operator.api.training import TrainingSpec
from imagenet_spec.names import IMAGENET_CACHE, IMAGENET_DATASET, IMAGENET_OUTPUT, IMAGENET_RESULTS

_CHANGED = {
    "learning_rate_scaling": "--lr-scaling",
    "learning_rate_scaling_base": "--lr-scaling-base",
    "schedule": "--lr-schedule",
    "power": "--lr-power",
    "ema_decay": "--ema-decay",
}


def of_worker(job: ImageNetJob, options: Sequence[str], slots: int = 1) -> tuple[str, ...]:
    """Return the arguments of `imagenet-train` in a worker.

    Args:
        job: The job.
        options: The options that follow from the strategy's fields.
        slots: The number of processes of a worker. They share its GPUs and its part of `batchSize`.
    """
    training = job.spec.training
    processes, threads = training.workers.replicas * slots, training.data_threads
    return (
        *_dataset(job, slots),
        *("--output", f"$({IMAGENET_RESULTS})"),
        *_network(job),
        *of_strategy(job),
        *options,
        *("--batch-size", str(training.batch_size // processes)),
        *("--num-epochs", str(training.epochs)),
        *(() if training.precision is None else ("--dtype", training.precision)),
        *(() if training.compile is None else ("--compile", str(int(training.compile)))),
        *(("--compile-cache", "0") if training.compile_cache is False else ()),
        *(("--activation-checkpointing", "1") if training.activation_checkpointing else ()),
        *_gpus(training.workers.gpus // slots),
        *(() if threads is None else ("--data-nthreads", str(threads))),
        *(() if training.reader is None else ("--reader", training.reader)),
        *(("--deterministic", "1") if training.deterministic else ()),
        *_optimizer(job),
        *_loss(training),
        *_augmentation(training.augmentation),
        *_checkpoint(job),
        *training.extra_args,
    )


def of_strategy(job: ImageNetJob) -> tuple[str, ...]:
    """Return the options for a job's framework and strategy."""
    training = job.spec.training
    framework = FRAMEWORKS[training.framework]
    return (*framework.options, *framework.strategies[training.strategy.kind].options)


def _dataset(job: ImageNetJob, slots: int) -> tuple[str, ...]:
    """Return the options for the dataset: a folder, or an address with its cache."""
    source, cache = job.spec.dataset.source.fields, job.spec.training.workers.cache
    if source.remote_url is None:
        return ("--dataset", f"$({IMAGENET_DATASET})")
    kept: tuple[str, ...] = ()
    if cache is not None:
        # The processes of a worker share its volume.
        size = math.floor(quantities.parse(cache.size) / slots)
        kept = ("--cache", f"$({IMAGENET_CACHE})", "--cache-size", str(size))
    return ("--dataset-url", f"$({IMAGENET_DATASET})", *source.remote_arguments, *kept)


def _network(job: ImageNetJob) -> tuple[str, ...]:
    model = job.spec.training.model
    depth = () if model.num_layers is None else ("--num-layers", str(model.num_layers))
    shape = ",".join(map(str, model.image_shape))
    sizes = ",".join(f"{one.epoch}:{one.size}" for one in model.image_sizes or ())
    validation, start = model.validation_size, model.pretrained
    return (
        *("--network", model.network, *depth, "--image-shape", shape),
        *(("--image-sizes", sizes) if sizes else ()),
        *(() if validation is None else ("--validation-size", str(validation))),
        *(() if start is None else ("--pretrained", f"$({IMAGENET_OUTPUT})/{start}")),
    )


def _gpus(count: int) -> tuple[str, ...]:
    """Return the option for a process's GPUs, which it numbers from 0."""
    return ("--gpus", ",".join(map(str, range(count)))) if count else ()


def _optimizer(job: ImageNetJob) -> tuple[str, ...]:
    optimizer = job.spec.training.optimizer
    return (
        *("--optimizer", optimizer.name),
        *("--lr", str(optimizer.learning_rate)),
        *("--mom", str(optimizer.momentum)),
        *("--wd", str(optimizer.weight_decay)),
        *("--lr-factor", str(optimizer.learning_rate_factor)),
        *("--lr-step-epochs", ",".join(map(str, optimizer.step_epochs))),
        *("--warmup-epochs", str(optimizer.warmup_epochs)),
        *("--warmup-strategy", optimizer.warmup_strategy),
        *_changed(optimizer),
    )


def _changed(optimizer: Optimizer) -> tuple[str, ...]:
    """Return the options that differ from their defaults, for those that MXNet's programs lack."""
    changed = optimizer.model_dump(include=set(_CHANGED), exclude_defaults=True)
    return tuple(text for name, value in changed.items() for text in (_CHANGED[name], str(value)))


def _loss(training: TrainingSpec) -> tuple[str, ...]:
    smoothing = training.label_smoothing
    return () if smoothing is None else ("--label-smoothing", str(smoothing))


def _augmentation(augmentation: Augmentation) -> tuple[str, ...]:
    """Return the options that differ from their defaults, named like their fields."""
    changed = augmentation.model_dump(exclude_defaults=True)
    return tuple(
        text
        for name, value in changed.items()
        for text in (f"--{name.replace('_', '-')}", _written(value))
    )


def _written(value: bool | int | float) -> str:
    """Format a value as MXNet's programs parse it: booleans are 0 and 1."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _checkpoint(job: ImageNetJob) -> tuple[str, ...]:
    checkpoint = job.spec.training.checkpoint
    seconds, start = checkpoint.every_seconds, checkpoint.init_from
    return (
        *("--checkpoint-every-epochs", str(checkpoint.every_epochs)),
        *(() if seconds is None else ("--checkpoint-every-seconds", str(seconds))),
        *("--checkpoint-keep", str(checkpoint.keep)),
        *(() if start is None else ("--init-from", f"$({IMAGENET_OUTPUT})/{start}")),
    )
