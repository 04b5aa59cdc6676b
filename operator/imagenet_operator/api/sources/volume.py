"""The source `volume`: a raw archive, or a folder of class folders, on a claim; read in place."""

from __future__ import annotations

from imagenet_operator.api.base import Model, Rule
from imagenet_operator.api.fields import ObjectName, RelativePath, stays_below


class VolumeSource(Model):
    """Images on a PersistentVolumeClaim, mounted read-only and never extracted."""

    claim_name: ObjectName
    """The PersistentVolumeClaim that holds the images."""

    path: RelativePath
    """A tar (of class tars, or of class folders) or a folder of class folders, from the claim's
    root."""

    rules = (stays_below("path"),)


DATASET_RULES = (
    Rule(
        cel="!has(self.source.volume) || has(self.volume)",
        message="must be given: the prepared dataset needs a place",
        field="volume",
        holds=lambda dataset: dataset.source.volume is None or dataset.volume is not None,
        hint="write {claimName: …} or {size: 200Gi}",
    ),
)
"""What this kind asks of the rest of the dataset."""
