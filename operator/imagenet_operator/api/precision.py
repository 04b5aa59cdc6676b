"""The values of `spec.training.precision`, which are those of `imagenet-train --dtype`."""

from __future__ import annotations

from typing import Literal

Precision = Literal["float32", "bfloat16", "float16"]
