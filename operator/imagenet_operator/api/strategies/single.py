"""The strategy `single`: one worker on one machine, with the GPUs it is given."""

from __future__ import annotations

from typing import Literal

from imagenet_operator.api.strategies.fields import StrategyFields, one_worker


class Single(StrategyFields):
    """One process, no network."""

    kv_store: Literal["local", "device"] = "device"
    """MXNet's kvstore: local adds the GPUs' gradients up on the host, device on the GPUs."""

    frameworks = ("MXNet",)
    training_rules = (one_worker("single", instead="parameterServer"),)
    frozen = ("kvStore",)
