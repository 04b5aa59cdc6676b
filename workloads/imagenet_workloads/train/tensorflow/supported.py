"""Refuses options that only MXNet has, before anything waits for anybody. No TensorFlow."""

import dataclasses

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.options import Options

# By group: options that must be left as they are.
MXNET_ONLY = {
    "model": ("dtype",),
    "output": ("monitor",),
    "cluster": ("gc_type", "gc_threshold"),
    "augmentation": (
        "max_random_h",
        "max_random_s",
        "max_random_l",
        "max_random_rotate_angle",
        "max_random_shear_ratio",
        "max_random_scale",
        "min_random_scale",
    ),
    "data": ("data_train_idx", "data_val_idx"),
}


def refuse_unsupported(options: Options) -> None:
    """Refuse what TensorFlow's side does not do.

    Raises:
        InputError: names every such option.
    """
    refused = [
        f"--{field.name.replace('_', '-')}"
        for group, names in MXNET_ONLY.items()
        for field in dataclasses.fields(getattr(options, group))
        if field.name in names and getattr(getattr(options, group), field.name) != field.default
    ]
    if options.optimizer.warmup_strategy == "lars":
        refused.append("--warmup-strategy lars")
    if refused:
        raise InputError(
            f"{', '.join(refused)}: only MXNet has that; leave it out, or write --framework MXNet"
        )
