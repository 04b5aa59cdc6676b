"""How workers train together: one module a strategy, each with its fields, checks and CEL rules.

A further strategy adds its module, one field here and its rules to the tables below.
"""

from __future__ import annotations

from imagenet_operator.api.base import OneOf, Rule
from imagenet_operator.api.strategies import parameter_server, single
from imagenet_operator.api.strategies.parameter_server import ParameterServer, Servers
from imagenet_operator.api.strategies.single import Single

__all__ = ["FROZEN", "TRAINING_RULES", "ParameterServer", "Servers", "Single", "Strategy"]


class Strategy(OneOf):
    """Exactly one strategy."""

    parameter_server: ParameterServer | None = None
    """MXNet's parameter servers: any number of workers on any number of nodes."""

    single: Single | None = None
    """One worker, with as many GPUs as its node has."""


TRAINING_RULES: tuple[Rule, ...] = (*parameter_server.TRAINING_RULES, *single.TRAINING_RULES)

FROZEN: dict[str, tuple[str, ...]] = {
    "parameterServer": parameter_server.FROZEN,
    "single": single.FROZEN,
}
"""What stays as it is in a job that has started, even while it is suspended."""
