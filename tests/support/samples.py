"""Samples with figures by short names, for tests of what reads them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from imagenet_operator.api.figures import FIGURES
from imagenet_operator.reconcile.sample import Sample

_SHORT = {"accuracy": "accuracy.train", "validation_accuracy": "accuracy.validation"}
_FIGURES = {item.field for item in FIGURES}


def sample(taken_at: datetime, **fields: Any) -> Sample:
    """A sample whose figures are given like its fields; those that are None are left out."""
    named = {_SHORT.get(name, name): value for name, value in fields.items()}
    figures = {name: named.pop(name) for name in _FIGURES & named.keys()}
    known = {name: value for name, value in figures.items() if value is not None}
    return Sample(taken_at, figures=known, **named)
