"""What every kind of source says of itself: the class that each kind's fields extend.

The rest of the operator asks it and no kind by name. So another kind is one module and one field of
the union (docs/add-a-source.md).
"""

from __future__ import annotations

from typing import Any, ClassVar

from imagenet_operator.api.base import Model, Rule


class SourceFields(Model):
    """The fields of one kind of source. Those of the class itself are for the rest."""

    dataset_rules: ClassVar[tuple[Rule, ...]] = ()
    """What it asks of the rest of `spec.dataset`, the place of these rules."""

    @property
    def claim(self) -> str | None:
        """The PersistentVolumeClaim to read from. None: no claim."""
        return None

    @property
    def claim_field(self) -> str:
        """The field that names `claim`."""
        return "claimName"

    @property
    def is_fetched(self) -> bool:
        """Whether a Job stores the images on `claim` before index; only that one has the Secret."""
        return False

    @property
    def secret(self) -> str | None:
        """The Secret of fetch, index and pack, or of workers with a `remote_url`. None: none."""
        return None

    @property
    def sealed_path(self) -> str | None:
        """The folder of a sealed dataset on `claim`. None: no sealed dataset is there."""
        return None

    @property
    def is_sealed(self) -> bool:
        """Whether the source is a sealed dataset, which needs no preparation without a volume."""
        return False

    @property
    def remote_url(self) -> str | None:
        """The address of a sealed dataset that workers read without a volume. None: they do not."""
        return None

    @property
    def remote_options(self) -> dict[str, str | None]:
        """The values of options by which workers open `remote_url`, besides the address."""
        return {}

    @property
    def shorter_edge(self) -> tuple[str, int] | None:
        """The field that gives the shorter edge of all images, and its pixels. None: unknown."""
        return None

    def reading_arguments(self, validation: Any) -> list[str]:
        """Return the arguments by which fetch, index and pack open the images.

        Args:
            validation: `spec.dataset.validation`.
        """
        del validation
        return []

    def index_arguments(self, validation: Any) -> list[str]:
        """Return further arguments of fetch and index.

        Args:
            validation: `spec.dataset.validation`.
        """
        del validation
        return []

    @property
    def fetch_arguments(self) -> list[str]:
        """Further arguments of fetch."""
        return []


def annotations_option(is_wanted: bool) -> list[str]:
    """Return the argument of fetch and index by which annotations beside the images are read."""
    return ["--read-annotations"] if is_wanted else []


def needs_volume(kind: str, size: str) -> Rule:
    """Return the rule that a source needs preparation, so its dataset needs a volume.

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
