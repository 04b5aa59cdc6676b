"""The registry of the frameworks' descriptors, and the values that follow from it.

A new framework is a module with its `Framework` (`descriptor`), and one entry in `FRAMEWORKS`. From
it follow the values of `spec.training.framework`, formats and networks, the rules for combinations
(`api.compatibility`, `api.capabilities`), the images of pods and the environment of local runs. Its
other half is in the workloads; a contract test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from imagenet_operator.api.frameworks.descriptor import (
    Family,
    Framework,
    GPUCode,
    Images,
    LocalEnvironment,
    StrategySupport,
)
from imagenet_operator.api.frameworks.mxnet import MXNET
from imagenet_operator.api.frameworks.pytorch import PYTORCH
from imagenet_operator.api.frameworks.tensorflow import TENSORFLOW

__all__ = [
    "DEFAULT_FORMAT",
    "DEFAULT_FRAMEWORK",
    "FRAMEWORKS",
    "NETWORKS",
    "PREFIXES",
    "Family",
    "Format",
    "Framework",
    "FrameworkName",
    "GPUCode",
    "Images",
    "LocalEnvironment",
    "StrategySupport",
    "family_of",
    "is_named",
    "is_named_cel",
    "with_strategy",
]

FRAMEWORKS: Mapping[str, Framework] = MappingProxyType(
    {framework.name: framework for framework in (MXNET, TENSORFLOW, PYTORCH)}
)
"""`spec.training.framework` → its descriptor."""

DEFAULT_FRAMEWORK = MXNET.name
"""The default framework."""

DEFAULT_FORMAT = MXNET.formats[0]
"""The default dataset format."""

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

_FORMATS = dict.fromkeys(name for framework in FRAMEWORKS.values() for name in framework.formats)

# The registry determines the values of these types: the schema has all names, mypy sees a str.
if TYPE_CHECKING:
    FrameworkName = str
    Format = str
else:
    FrameworkName = Literal[tuple(FRAMEWORKS)]
    Format = Literal[tuple(_FORMATS)]


def family_of(network: str) -> Family:
    """Return the networks of a name; those of one depth and any image size for a name of none."""
    return NETWORKS.get(network, Family())


def is_named(network: str) -> bool:
    """Return whether a framework may have a network of this name."""
    return any(framework.has_network(network) for framework in FRAMEWORKS.values())


def is_named_cel(path: str) -> str:
    """Return `is_named` of a field as CEL."""
    prefixed = "".join(f" || {path}.startsWith('{prefix}')" for prefix in PREFIXES)
    return f"{path} in {list(NETWORKS)}{prefixed}"


def with_strategy(strategy: str) -> dict[str, StrategySupport]:
    """Return the support of a strategy by framework."""
    return {
        name: framework.strategies[strategy]
        for name, framework in FRAMEWORKS.items()
        if strategy in framework.strategies
    }
