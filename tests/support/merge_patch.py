"""JSON merge patches (RFC 7396), as the clusters of the tests apply them."""

from __future__ import annotations

import copy
from typing import Any


def merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """Merge a patch into an object, in place; the two share nothing afterwards."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)
