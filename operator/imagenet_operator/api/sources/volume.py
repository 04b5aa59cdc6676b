"""The source `volume`: a raw archive, or a folder of class folders, on a claim; read in place."""

from __future__ import annotations

from typing import Any

from imagenet_operator.api.fields import ObjectName, RelativePath, stays_below
from imagenet_operator.api.sources.fields import SOURCE, SourceFields, needs_volume


class VolumeSource(SourceFields):
    """Images on a PersistentVolumeClaim, mounted read-only and never extracted."""

    claim_name: ObjectName
    """The PersistentVolumeClaim that holds the images."""

    path: RelativePath
    """A tar (of class tars, or of class folders) or a folder of class folders, from the claim's
    root."""

    path_in_archive: RelativePath | None = None
    """The folder or tar in the tar that holds the classes, such as ``train``; by default the folder
    that holds all of them."""

    expected_class_names: RelativePath | None = None
    """A file with the names of the classes that the dataset must have, one a line, from the claim's
    root. If a class is missing or not expected, preparation fails and names it."""

    rules = (
        stays_below("path"),
        stays_below("pathInArchive"),
        stays_below("expectedClassNames"),
    )

    dataset_rules = (needs_volume("volume", "200Gi"),)

    @property
    def claim(self) -> str:
        """The claim of the images."""
        return self.claim_name

    def reading_arguments(self, validation: Any) -> list[str]:
        """Return the paths of the images and of validation images."""
        arguments = ["--source", _on_claim(self.path)]
        if self.path_in_archive is not None:
            # In one argument: a folder's name may begin with a dash.
            arguments += [f"--path-in-archive={self.path_in_archive}"]
        if validation is not None and validation.path is not None:
            arguments += ["--validation-source", _on_claim(validation.path)]
        return arguments

    def index_arguments(self, validation: Any) -> list[str]:
        """Return the paths of the names of classes and of the labels of validation images."""
        arguments = []
        if self.expected_class_names is not None:
            arguments += ["--expected-class-names", _on_claim(self.expected_class_names)]
        if validation is not None and validation.labels is not None:
            arguments += ["--validation-labels", _on_claim(validation.labels)]
        return arguments


def _on_claim(path: str) -> str:
    return f"$({SOURCE})/{path}"
