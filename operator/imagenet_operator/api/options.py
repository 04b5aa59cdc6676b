"""The options of ``imagenet-train`` that the operator sets, and the field of each.

An extraArg that repeats one is rejected, because the program would ignore the manifest's field.
"""

from __future__ import annotations

import re
from typing import Any

from imagenet_operator.api.base import Rule
from imagenet_spec.program.train import OPTIONS

OPERATOR_OPTIONS: dict[str, str] = {
    item.flag: f"spec.{item.field}" for item in OPTIONS if item.field
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
