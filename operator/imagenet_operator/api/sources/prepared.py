"""The source `prepared`: a dataset that an earlier job sealed; nothing is prepared again."""

from __future__ import annotations

from imagenet_operator.api.base import Rule
from imagenet_operator.api.fields import ObjectName, RelativePath, stays_below
from imagenet_operator.api.sources.fields import SourceFields


class PreparedSource(SourceFields):
    """A sealed dataset (a folder with dataset.json) on a PersistentVolumeClaim."""

    claim_name: ObjectName
    """The PersistentVolumeClaim that holds the dataset. It is the job's data volume too: without
    `training.output` the results are written beside the dataset."""

    path: RelativePath
    """The folder of dataset.json from the claim's root, as ``datasets/KEY``."""

    rules = (stays_below("path"),)

    dataset_rules = (
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

    @property
    def claim(self) -> str:
        """The claim of the dataset."""
        return self.claim_name

    @property
    def sealed_path(self) -> str:
        """The folder of the dataset."""
        return self.path
