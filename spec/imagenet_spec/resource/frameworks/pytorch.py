"""What PyTorch alone refuses: rules for `spec.training`."""

from __future__ import annotations

from imagenet_spec.resource.frameworks.rules import FrameworkRules
from imagenet_spec.rules import Rule

_NO_KV_STORE = Rule(
    cel="!has(self.strategy.single) || self.strategy.single.kvStore == 'device'",
    message="must be absent with the framework PyTorch, which has no kvstore",
    field="strategy.single.kvStore",
    hint="remove it",
)

RULES = FrameworkRules((_NO_KV_STORE,))
