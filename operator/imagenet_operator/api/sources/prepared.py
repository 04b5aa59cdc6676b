"""The source `prepared`: a dataset that an earlier job sealed; nothing is prepared again."""

from __future__ import annotations

from imagenet_operator.api.base import Model, Rule
from imagenet_operator.api.fields import ObjectName, RelativePath, stays_below


class PreparedSource(Model):
    """A sealed dataset (a folder with dataset.json) on a PersistentVolumeClaim."""

    claim_name: ObjectName
    """The PersistentVolumeClaim that holds the dataset. It is the job's data volume too: without
    `training.output` the results are written beside the dataset."""

    path: RelativePath
    """The folder of dataset.json from the claim's root, as ``datasets/KEY``."""

    rules = (stays_below("path"),)


DATASET_RULES = (
    Rule(
        cel="!has(self.source.prepared) || !has(self.volume)",
        message="must not be given for a prepared source, whose claim is the dataset's volume",
        field="volume",
        holds=lambda dataset: dataset.source.prepared is None or dataset.volume is None,
        hint="remove it",
    ),
    Rule(
        cel="!has(self.source.prepared) || !has(self.validation)",
        message="must not be given for a prepared source, which has its validation images",
        field="validation",
        holds=lambda dataset: dataset.source.prepared is None or dataset.validation is None,
        hint="remove it",
    ),
)
"""What this kind asks of the rest of the dataset."""
