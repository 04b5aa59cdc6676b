"""The source `volume`: a raw archive, or a folder of class folders, on a claim; read in place."""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import MaxLen, MinLen

from imagenet_operator.api.base import DefaultWhenRead
from imagenet_operator.api.fields import (
    ObjectName,
    RelativePath,
    all_differ,
    all_stay_below,
    stays_below,
)
from imagenet_operator.api.sources.fields import (
    SourceFields,
    annotations_option,
    needs_volume,
)
from imagenet_spec.names import IMAGENET_SOURCE


class VolumeSource(SourceFields):
    """Images on a PersistentVolumeClaim, mounted read-only and never extracted."""

    claim_name: ObjectName
    """The PersistentVolumeClaim that holds the images."""

    path: RelativePath
    """A folder of class folders, or a tar or zip (of class folders, or of class archives), from the
    claim's root. Or a tree with folders for training and validation, as torchvision's and
    Kaggle's. Or a Parquet file, or a folder of them."""

    path_in_archive: RelativePath | None = None
    """The folder or archive in the archive that holds the classes, such as ``train``; by default
    the folder that holds all of them."""

    expected_class_names: RelativePath | None = None
    """A file with the names of the classes that the dataset must have, one a line, from the claim's
    root. If a class is missing or not expected, preparation fails and names it."""

    class_words: RelativePath | None = None
    """A file with words for the classes, such as ``tench`` for n01440764, from the claim's root:
    LOC_synset_mapping.txt, words.txt, meta.mat, imagenet_class_index.json, or a JSON object.
    Absent: LOC_synset_mapping.txt, words.txt or the development kit of a tree, if it has one."""

    bounding_boxes: Annotated[tuple[RelativePath, ...], MinLen(1), MaxLen(8)] | None = None
    """Tars with the annotations of the images, in the XML of Pascal VOC, from the claim's root:
    ILSVRC2012_bbox_train_v2.tar.gz and ILSVRC2012_bbox_val_v3.tgz. Each image's boxes are in the
    dataset."""

    read_annotations: Annotated[bool, DefaultWhenRead()] = False
    """Whether the bounding boxes beside the images are read. The source must be a tree as
    Kaggle's, with ``Annotations/CLS-LOC`` beside ``Data/CLS-LOC``."""

    rules = (
        stays_below("path"),
        stays_below("pathInArchive"),
        stays_below("expectedClassNames"),
        stays_below("classWords"),
        all_stay_below("boundingBoxes"),
        all_differ("boundingBoxes"),
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
        """Return the paths of the files about classes, boxes and labels."""
        arguments = []
        if self.expected_class_names is not None:
            arguments += ["--expected-class-names", _on_claim(self.expected_class_names)]
        if self.class_words is not None:
            arguments += ["--class-words", _on_claim(self.class_words)]
        for path in self.bounding_boxes or ():
            arguments += ["--bounding-boxes", _on_claim(path)]
        if validation is not None and validation.labels is not None:
            arguments += ["--validation-labels", _on_claim(validation.labels)]
        return [*arguments, *annotations_option(self.read_annotations)]


def _on_claim(path: str) -> str:
    return f"$({IMAGENET_SOURCE})/{path}"
