"""What every kind of source says of itself: the class that each kind's fields extend.

The rest of the operator asks it and no kind by name, so that another kind is one module and one
field of the union (docs/add-a-source.md).
"""

from __future__ import annotations

from typing import Any, ClassVar

from imagenet_operator.api.base import Model, Rule

SOURCE = "IMAGENET_SOURCE"
"""The variable of the folder where pods find `SourceFields.claim`."""

CREDENTIALS = "IMAGENET_CREDENTIALS"
"""The variable of the folder where pods find `SourceFields.secret`: one file for each key."""


class SourceFields(Model):
    """The fields of one kind of source. Those of the class itself are for the rest."""

    dataset_rules: ClassVar[tuple[Rule, ...]] = ()
    """What it asks of the rest of `spec.dataset`, where these rules stand."""

    @property
    def claim(self) -> str | None:
        """The PersistentVolumeClaim to read from; its field is `claimName`. None: no claim."""
        return None

    @property
    def secret(self) -> str | None:
        """The Secret with the credentials of index and pack. None: there are none."""
        return None

    @property
    def sealed_path(self) -> str | None:
        """The folder of a sealed dataset on `claim`. None: the dataset has to be prepared."""
        return None

    def reading_arguments(self, validation: Any) -> list[str]:
        """Return the arguments by which index and pack open the images.

        Args:
            validation: `spec.dataset.validation`.
        """
        del validation
        return []

    def index_arguments(self, validation: Any) -> list[str]:
        """Return further arguments of index.

        Args:
            validation: `spec.dataset.validation`.
        """
        del validation
        return []


def needs_volume(kind: str, size: str) -> Rule:
    """Return the rule that a source has to be prepared, so that its dataset needs a volume.

    Args:
        kind: The kind's name in a manifest.
        size: A volume's size, for the hint.
    """
    return Rule(
        cel=f"!has(self.source.{kind}) || has(self.volume)",
        message="must be given: the prepared dataset needs a place",
        field="volume",
        holds=lambda dataset: kind not in dataset.source.given or dataset.volume is not None,
        hint=f"write {{claimName: …}} or {{size: {size}}}",
    )


def validates_by_split(kind: str) -> Rule:
    """Return the rule that a source has no validation images apart from its classes.

    Args:
        kind: The kind's name in a manifest.
    """
    return Rule(
        cel=f"!has(self.source.{kind}) || !has(self.validation) || has(self.validation.split)",
        message=f"of a {kind} source must be a split: there is no label file",
        field="validation",
        holds=lambda dataset: (
            kind not in dataset.source.given
            or dataset.validation is None
            or dataset.validation.split is not None
        ),
        hint="write {split: {imagesPerClass: 50}}",
    )
