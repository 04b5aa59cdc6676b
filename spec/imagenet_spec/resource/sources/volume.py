"""The source `volume`: a raw archive, or a folder of class folders, on a claim; read in place."""

from __future__ import annotations

from typing import Annotated

from annotated_types import MaxLen, MinLen

from imagenet_spec.resource.base import DefaultWhenRead
from imagenet_spec.resource.fields import (
    ObjectName,
    RelativePath,
    all_differ,
    all_stay_below,
    stays_below,
)
from imagenet_spec.resource.sources.fields import (
    SourceFields,
    needs_volume,
)


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
        return self.claim_name
