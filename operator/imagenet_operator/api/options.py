"""The options of ``imagenet-train`` that the operator sets, and the field of each.

An extraArg that repeats one is rejected, because the program would ignore the manifest's field.
Tests compare the builders' arguments with this table.
"""

from __future__ import annotations

import re
from typing import Any

from imagenet_operator.api.augmentation import Augmentation
from imagenet_operator.api.base import Rule

_TRAINING = "spec.training"

OPERATOR_OPTIONS: dict[str, str] = {
    "--dataset": "spec.dataset",
    "--dataset-url": "spec.dataset",
    "--dataset-endpoint": "spec.dataset",
    "--dataset-region": "spec.dataset",
    "--dataset-query-key": "spec.dataset",
    "--cache": f"{_TRAINING}.workers.cache",
    "--cache-size": f"{_TRAINING}.workers.cache.size",
    "--data-train": "spec.dataset",
    "--data-train-idx": "spec.dataset",
    "--data-val": "spec.dataset",
    "--data-val-idx": "spec.dataset",
    "--num-classes": "spec.dataset",
    "--num-examples": "spec.dataset",
    "--output": f"{_TRAINING}.output",
    "--framework": f"{_TRAINING}.framework",
    "--kv-store": f"{_TRAINING}.strategy",
    "--distribution-strategy": f"{_TRAINING}.strategy",
    "--network": f"{_TRAINING}.model.network",
    "--num-layers": f"{_TRAINING}.model.numLayers",
    "--image-shape": f"{_TRAINING}.model.imageShape",
    "--image-sizes": f"{_TRAINING}.model.imageSizes",
    "--validation-size": f"{_TRAINING}.model.validationSize",
    "--pretrained": f"{_TRAINING}.model.pretrained",
    "--compile": f"{_TRAINING}.compile",
    "--compile-cache": f"{_TRAINING}.compileCache",
    "--activation-checkpointing": f"{_TRAINING}.activationCheckpointing",
    "--batch-size": f"{_TRAINING}.batchSize",
    "--num-epochs": f"{_TRAINING}.epochs",
    "--data-nthreads": f"{_TRAINING}.dataThreads",
    "--reader": f"{_TRAINING}.reader",
    "--deterministic": f"{_TRAINING}.deterministic",
    "--gpus": f"{_TRAINING}.workers.gpus",
    "--optimizer": f"{_TRAINING}.optimizer.name",
    "--lr": f"{_TRAINING}.optimizer.learningRate",
    "--lr-scaling": f"{_TRAINING}.optimizer.learningRateScaling",
    "--lr-scaling-base": f"{_TRAINING}.optimizer.learningRateScalingBase",
    "--mom": f"{_TRAINING}.optimizer.momentum",
    "--wd": f"{_TRAINING}.optimizer.weightDecay",
    "--lr-factor": f"{_TRAINING}.optimizer.learningRateFactor",
    "--lr-step-epochs": f"{_TRAINING}.optimizer.stepEpochs",
    "--warmup-epochs": f"{_TRAINING}.optimizer.warmupEpochs",
    "--lr-schedule": f"{_TRAINING}.optimizer.schedule",
    "--lr-power": f"{_TRAINING}.optimizer.power",
    "--ema-decay": f"{_TRAINING}.optimizer.emaDecay",
    "--label-smoothing": f"{_TRAINING}.labelSmoothing",
    "--warmup-strategy": f"{_TRAINING}.optimizer.warmupStrategy",
    "--checkpoint-every-epochs": f"{_TRAINING}.checkpoint.everyEpochs",
    "--checkpoint-every-seconds": f"{_TRAINING}.checkpoint.everySeconds",
    "--checkpoint-keep": f"{_TRAINING}.checkpoint.keep",
    "--init-from": f"{_TRAINING}.checkpoint.initFrom",
    "--join-timeout": "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
    "--load-epoch": f"{_TRAINING}.checkpoint.initFrom",
    **{
        f"--{name.replace('_', '-')}": f"{_TRAINING}.augmentation.{field.alias}"
        for name, field in Augmentation.model_fields.items()
    },
}
"""Option → its field."""

_ALTERNATIVES = "|".join(option.removeprefix("--") for option in OPERATOR_OPTIONS)
_PATTERN = f"^--({_ALTERNATIVES})(=|$)"


def _explain(training: Any) -> tuple[str, str]:
    repeated = (text for text in training.extra_args if re.match(_PATTERN, text))
    option = next(repeated).partition("=")[0]
    return f"{option} is set by the operator", f"write {OPERATOR_OPTIONS[option]} instead"


NO_REPEATED_OPTION = Rule(
    cel=f"!has(self.extraArgs) || !self.extraArgs.exists(text, text.matches('{_PATTERN}'))",
    message="must not repeat an option that the operator sets from another field",
    field="extraArgs",
    holds=lambda training: not any(re.match(_PATTERN, text) for text in training.extra_args),
    explain=_explain,
)
"""The rule for `spec.training`."""

_DTYPE = "^--dtype(=|$)"

# `--dtype` is older than the field, so extraArgs may have it where the field is absent.
NO_SECOND_PRECISION = Rule(
    cel=(
        "!has(self.precision) || !has(self.extraArgs)"
        f" || !self.extraArgs.exists(text, text.matches('{_DTYPE}'))"
    ),
    message="must not have --dtype beside precision",
    field="extraArgs",
    holds=lambda training: (
        training.precision is None
        or not any(re.match(_DTYPE, text) for text in training.extra_args)
    ),
    hint="remove --dtype",
)
"""The rule for `spec.training` that its precision is given once."""
