"""Rules for `spec` if its dataset is in a bucket or on a server, from where workers read it.

Such a job has no volume of its dataset: results need one, and only the ordered reader reads ranges.
"""

from __future__ import annotations

from typing import Any

from imagenet_operator.api import capabilities
from imagenet_operator.api.base import Rule
from imagenet_spec.program.train import ONLY_IMAGE_RECORD_ITER

_REMOTE_CEL = "has(self.dataset.source.prepared) && !has(self.dataset.source.prepared.claimName)"
_LACKING = ONLY_IMAGE_RECORD_ITER


def _is_remote(spec: Any) -> bool:
    return spec.dataset.source.fields.remote_url is not None


def _explain_augmentation(spec: Any) -> tuple[str, str]:
    changed = capabilities.changed(spec.training.augmentation, _LACKING)
    return f"Ordered has no {capabilities.none_of(changed)}", "remove it, or copy it to a claim"


RULES = (
    Rule(
        cel=f"!({_REMOTE_CEL}) || has(self.training.output)",
        message="must be given: the dataset is on no volume, and the results need one",
        field="training.output",
        holds=lambda spec: not _is_remote(spec) or spec.training.output is not None,
        hint="write {volume: {claimName: …}} or {volume: {size: 20Gi}}",
    ),
    Rule(
        cel=f"!has(self.training.workers.cache) || ({_REMOTE_CEL})",
        message="is for a dataset in a bucket or on a server",
        field="training.workers.cache",
        holds=lambda spec: spec.training.workers.cache is None or _is_remote(spec),
        hint="remove it, or write dataset.source.prepared.s3",
    ),
    Rule(
        cel=(
            f"!({_REMOTE_CEL}) || !has(self.training.reader)"
            " || self.training.reader != 'ImageRecordIter'"
        ),
        message="must not be ImageRecordIter, which reads only files on a volume",
        field="training.reader",
        holds=lambda spec: not _is_remote(spec) or spec.training.reader != "ImageRecordIter",
        hint="write reader: Ordered",
    ),
    Rule(
        cel=(
            f"!({_REMOTE_CEL})"
            f" || ({capabilities.unchanged_cel(_LACKING, 'self.training.augmentation')})"
        ),
        message=(
            "must not have these for a dataset in a bucket or on a server, which only the reader"
            f" Ordered reads: {capabilities.listed(_LACKING)}"
        ),
        field="training.augmentation",
        holds=lambda spec: (
            not _is_remote(spec) or not capabilities.changed(spec.training.augmentation, _LACKING)
        ),
        explain=_explain_augmentation,
    ),
)
