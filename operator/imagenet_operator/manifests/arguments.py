"""The arguments of the pods' programs: options from the resource's fields.

Each option declares its field (`imagenet_spec.program`). What differs from the program's default is
written. Builders add the values of options that follow from several fields.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.names import IMAGENET_CACHE, IMAGENET_DATASET, IMAGENET_RESULTS
from imagenet_spec.program.option import Program, written
from imagenet_spec.program.presets import PRESETS
from imagenet_spec.program.train import OPTIONS, TRAIN
from imagenet_spec.resource import ImageNetJob, extra_arguments, quantities
from imagenet_spec.resource.augmentation import Augmentation
from imagenet_spec.resource.base import Model

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def of_program(
    job: ImageNetJob, program: Program, values: Mapping[str, Any] = _NOTHING
) -> tuple[str, ...]:
    """Return the arguments of a program; `values` are those of options that no single field has."""
    return tuple(written(program.options, {**_of_fields(job, program), **values}))


def of_worker(job: ImageNetJob, options: Mapping[str, Any], slots: int = 1) -> tuple[str, ...]:
    """Return the arguments of `imagenet-train` in a worker.

    `options` follow from the strategy's fields. The `slots` processes of a worker share its GPUs
    and its part of `batchSize`.
    """
    training = job.spec.training
    source, cache, start = job.spec.dataset.source.fields, training.workers.cache, training.start
    reading: dict[str, Any] = {"dataset": f"$({IMAGENET_DATASET})", "cache_size": None}
    if source.remote_url is not None:
        reading = {
            "dataset_url": f"$({IMAGENET_DATASET})",
            **source.remote_options,
            "cache": cache and f"$({IMAGENET_CACHE})",
            # The processes of a worker share its volume.
            "cache_size": cache and math.floor(quantities.parse(cache.size) / slots),
        }
    starting: dict[str, Any] = {}
    if start is not None:
        is_model = training.model.pretrained_remote is not None
        starting = {
            "pretrained_url" if is_model else "init_from_url": start.url,
            "start_endpoint": start.endpoint,
            "start_region": start.region,
        }
    values = {
        **_of_fields(job, TRAIN),
        **reading,
        "output": f"$({IMAGENET_RESULTS})",
        "image_sizes": [f"{one.epoch}:{one.size}" for one in training.model.image_sizes or ()],
        "dtype": training.precision,
        "batch_size": training.batch_size // (training.workers.replicas * slots),
        # A process numbers its GPUs from 0.
        "gpus": tuple(range(training.workers.gpus // slots)),
        "load_epoch": None,
        **starting,
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


def _of_fields(job: ImageNetJob, program: Program) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in program.options:
        value = _at(job.spec, item.field)
        is_elsewhere = item.section and _at(job.spec, item.section) is None
        if value is None or is_elsewhere or isinstance(value, Model):
            continue
        values = [
            one.model_dump(mode="json", by_alias=True, exclude_none=True)
            if isinstance(one, Model)
            else f"$({item.below})/{one}"
            if item.below
            else one
            for one in (value if isinstance(value, tuple) else (value,))
        ]
        found[item.name] = values if isinstance(value, tuple) else values[0]
    return found


def _at(spec: Any, field: str) -> Any:
    """Return what a spec has at the path of a field; None if it is absent."""
    value = spec
    for name in _attributes(field):
        value = value.fields if name == "*" else getattr(value, name, None)
    return value


@functools.cache
def _attributes(field: str) -> tuple[str, ...]:
    return tuple(re.sub("([A-Z])", r"_\1", field).lower().split("."))
