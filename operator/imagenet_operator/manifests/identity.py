"""The hash of a job's training fields, which ties a checkpoint to a job.

Every pod of an attempt gets it as IMAGENET_SPEC_HASH, and a checkpoint's manifest records it. A
checkpoint with another hash is not resumed.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.strategies import STRATEGIES

# Fields that do not change what a job computes. Workers, templates and the batch size may change
# while a job is suspended, and it then resumes from its checkpoints.
_ELSEWHERE = frozenset(
    {
        "dataset.preprocessing.parallelism",
        "dataset.preprocessing.template",
        "dataset.publish",
        "dataset.verify",
        "dataset.volume",
        "training.batchSize",
        "training.checkpoint",
        "training.compileCache",
        "training.dataThreads",
        "training.image",
        "training.imagePullSecrets",
        "training.output",
        "training.workers",
        *(
            f"training.strategy.{kind}.{field}"
            for kind, fields in STRATEGIES.items()
            for field in fields.incidental
        ),
    }
)


def training_hash(job: ImageNetJob) -> str:
    """Return the hex SHA-256 of the fields that determine what is trained.

    It hashes the canonical JSON (sorted keys, no spaces) of the fields that differ from their
    defaults. So a field of a later version does not change the hash of a job that does not use it.
    """
    spec = job.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    identity = {part: _what_is_trained(spec[part], part) for part in ("dataset", "training")}
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _what_is_trained(fields: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the fields without those in `_ELSEWHERE`, and without objects that become empty.

    A strategy stays even if it is empty, because its name alone has a meaning.
    """
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        here = f"{path}.{name}"
        if here in _ELSEWHERE:
            continue
        if isinstance(value, dict):
            value = _what_is_trained(value, here)
            if not value and path != "training.strategy":
                continue
        kept[name] = value
    return kept
