"""The arguments of a worker: options of `imagenet-train` from the resource's fields.

Each option declares its field (`imagenet_spec.program.train`). What differs from the program's
default is written. Strategies add the values of their own options, such as the kvstore.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from imagenet_operator.api import ImageNetJob, extra_arguments, quantities
from imagenet_operator.api.augmentation import Augmentation
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.names import IMAGENET_CACHE, IMAGENET_DATASET, IMAGENET_OUTPUT, IMAGENET_RESULTS
from imagenet_spec.program.option import written
from imagenet_spec.program.presets import PRESETS
from imagenet_spec.program.train import OPTIONS


def of_worker(job: ImageNetJob, options: Mapping[str, Any], slots: int = 1) -> tuple[str, ...]:
    """Return the arguments of `imagenet-train` in a worker.

    Args:
        job: The job.
        options: The values of options that follow from the strategy's fields, by name.
        slots: The number of processes of a worker. They share its GPUs and its part of `batchSize`.
    """
    training = job.spec.training
    model, start = training.model, training.checkpoint.init_from
    values = {
        **_of_fields(job),
        **_of_dataset(job, slots),
        "output": f"$({IMAGENET_RESULTS})",
        "image_sizes": [f"{one.epoch}:{one.size}" for one in model.image_sizes or ()],
        "pretrained": model.pretrained and f"$({IMAGENET_OUTPUT})/{model.pretrained}",
        "dtype": training.precision,
        "batch_size": training.batch_size // (training.workers.replicas * slots),
        # A process numbers its GPUs from 0.
        "gpus": tuple(range(training.workers.gpus // slots)),
        "init_from": start and f"$({IMAGENET_OUTPUT})/{start}",
        "load_epoch": None,
        "join_timeout": None,
        **of_strategy(job),
        **options,
    }
    chosen = extra_arguments.values(training).get("--preset", "")
    # Of an augmentation, a value at its default means that the preset decides.
    preset = {
        name: value
        for name, value in PRESETS.get(chosen, {}).items()
        if name not in Augmentation.model_fields
    }
    return (*written(OPTIONS, values, preset), *training.extra_args)


def of_strategy(job: ImageNetJob) -> dict[str, Any]:
    """Return the values of the options for a job's framework and strategy."""
    training = job.spec.training
    strategy = FRAMEWORKS[training.framework].strategies[training.strategy.kind]
    return {"framework": training.framework, **strategy.options}


def _of_fields(job: ImageNetJob) -> dict[str, Any]:
    """Return the values of the fields that options have as they are."""
    found: dict[str, Any] = {}
    for item in OPTIONS:
        value: Any = job.spec
        for name in re.sub("([A-Z])", r"_\1", item.field).lower().split("."):
            value = getattr(value, name, None)
        if isinstance(value, (bool, int, float, str, tuple)):
            found[item.name] = value
    return found


def _of_dataset(job: ImageNetJob, slots: int) -> dict[str, Any]:
    """Return the values of the options for the dataset: a folder, or an address with its cache."""
    source, cache = job.spec.dataset.source.fields, job.spec.training.workers.cache
    if source.remote_url is None:
        return {"dataset": f"$({IMAGENET_DATASET})", "cache_size": None}
    return {
        "dataset_url": f"$({IMAGENET_DATASET})",
        **source.remote_options,
        "cache": cache and f"$({IMAGENET_CACHE})",
        # The processes of a worker share its volume.
        "cache_size": cache and math.floor(quantities.parse(cache.size) / slots),
    }
