"""What follows from the frameworks' descriptors (`imagenet_spec.frameworks`), and their own rules.

The values of `spec.training.framework`, formats and networks, and by `capabilities` the rules
for what a framework lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.frameworks.descriptor import Family, StrategySupport
from imagenet_spec.frameworks.mxnet import MXNET
from imagenet_spec.frameworks.pytorch import PYTORCH
from imagenet_spec.names import FORMATS
from imagenet_spec.resource.frameworks import mxnet, pytorch
from imagenet_spec.resource.frameworks.rules import FrameworkRules

_RULES = {MXNET.name: mxnet.RULES, PYTORCH.name: pytorch.RULES}


def rules_of(framework: str) -> FrameworkRules:
    """Return the rules of a framework beside those that follow from its descriptor."""
    return _RULES.get(framework, FrameworkRules())


NETWORKS: Mapping[str, Family] = MappingProxyType(
    {
        name: family
        for framework in FRAMEWORKS.values()
        for name, family in framework.networks.items()
    }
)
"""`model.network` → the networks of that name, over all frameworks."""

PREFIXES = tuple(
    framework.network_prefix for framework in FRAMEWORKS.values() if framework.network_prefix
)
"""The beginnings of the names of networks that are in no table."""

# The registry determines the values of these types: the schema has all names, mypy sees a str.
if TYPE_CHECKING:
    FrameworkName = str
    Format = str
else:
    FrameworkName = Literal[tuple(FRAMEWORKS)]
    Format = Literal[FORMATS]


def family_of(network: str) -> Family:
    """Return the networks of a name; those of one depth and any image size for a name of none."""
    return NETWORKS.get(network, Family())


def is_named_cel(path: str) -> str:
    """Return the CEL of whether a framework may have the network that a field names."""
    prefixed = "".join(f" || {path}.startsWith('{prefix}')" for prefix in PREFIXES)
    return f"{path} in {list(NETWORKS)}{prefixed}"


def with_strategy(strategy: str) -> dict[str, StrategySupport]:
    """Return the support of a strategy by framework."""
    return {
        name: framework.strategies[strategy]
        for name, framework in FRAMEWORKS.items()
        if strategy in framework.strategies
    }
