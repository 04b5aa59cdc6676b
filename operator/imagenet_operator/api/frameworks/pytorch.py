"""What PyTorch alone refuses: rules for `spec.training`."""

from __future__ import annotations

from typing import Any

from imagenet_operator.api.base import Rule
from imagenet_operator.api.frameworks.rules import FrameworkRules


def _explain_devices(training: Any) -> tuple[str, str]:
    return (
        f"must be 1 or less with single, not {training.workers.gpus}: the process has one device",
        "write gpus: 1, or strategy: {distributedDataParallel: {}}",
    )


_ONE_DEVICE = Rule(
    cel="!has(self.strategy.single) || self.workers.gpus <= 1",
    message="must be 1 or less with the framework PyTorch and the strategy single",
    field="workers.gpus",
    holds=lambda training: training.strategy.single is None or training.workers.gpus <= 1,
    explain=_explain_devices,
)

_NO_KV_STORE = Rule(
    cel="!has(self.strategy.single) || self.strategy.single.kvStore == 'device'",
    message="must be absent with the framework PyTorch, which has no kvstore",
    field="strategy.single.kvStore",
    holds=lambda training: (
        training.strategy.single is None or training.strategy.single.kv_store == "device"
    ),
    hint="remove it",
)

RULES = FrameworkRules((_ONE_DEVICE, _NO_KV_STORE))
