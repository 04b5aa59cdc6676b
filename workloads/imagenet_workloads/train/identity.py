"""Whose checkpoints are this training's: what makes two runs the same training."""

import dataclasses
import hashlib
import json

from imagenet_workloads.checkpoint.manifest import Identity
from imagenet_workloads.environment import Environment
from imagenet_workloads.train.options import Options


def identify(options: Options, environment: Environment) -> Identity:
    """Give the identity of this training's checkpoints.

    The operator gives a hash of what shapes a training; by hand it is one of the options that do,
    so that the same command continues, with more epochs too, and another one starts anew.
    """
    if environment.spec_hash:
        return Identity(environment.job_uid, environment.spec_hash)
    shaping = dataclasses.asdict(options) | {"output": None}
    for group, name in (("optimizer", "num_epochs"), ("data", "data_nthreads")):
        del shaping[group][name]
    names = ("framework", "distribution_strategy", "kv_store", "seed")
    shaping["cluster"] = {name: shaping["cluster"][name] for name in names}
    text = json.dumps(shaping, sort_keys=True, default=str)
    return Identity(environment.job_uid, hashlib.sha256(text.encode()).hexdigest())
