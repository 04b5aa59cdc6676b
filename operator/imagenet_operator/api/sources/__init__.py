"""Where images come from: one module a kind, each with its fields, checks and CEL rules.

A further kind adds its module, one field here and its rules to `DATASET_RULES`.
"""

from __future__ import annotations

from imagenet_operator.api.base import OneOf
from imagenet_operator.api.sources import prepared, synthetic, volume
from imagenet_operator.api.sources.prepared import PreparedSource
from imagenet_operator.api.sources.synthetic import SyntheticSource
from imagenet_operator.api.sources.volume import VolumeSource

__all__ = ["DATASET_RULES", "PreparedSource", "Source", "SyntheticSource", "VolumeSource"]


class Source(OneOf):
    """Exactly one kind of source."""

    volume: VolumeSource | None = None
    """A raw archive or folder on a claim."""

    prepared: PreparedSource | None = None
    """A dataset that an earlier job sealed."""

    synthetic: SyntheticSource | None = None
    """Generated images."""


DATASET_RULES = (*volume.DATASET_RULES, *prepared.DATASET_RULES, *synthetic.DATASET_RULES)
