"""Annotations as ILSVRC's archives hold them."""

import gzip
from collections.abc import Mapping
from typing import NamedTuple

from support.pictures import tar

# xmin, ymin, xmax, ymax as they stand in the XML.
Edges = tuple[object, object, object, object]


class Named(NamedTuple):
    """An object of an annotation."""

    name: str
    edges: Edges


def annotation(*objects: Named, width: object = 32, height: object = 24) -> bytes:
    """The XML of one image, with what else ILSVRC's has."""
    found = "".join(
        f"<object><name>{name}</name><pose>Unspecified</pose><bndbox><xmin>{xmin}</xmin>"
        f"<ymin>{ymin}</ymin><xmax>{xmax}</xmax>\n<ymax>{ymax}</ymax></bndbox></object>"
        for name, (xmin, ymin, xmax, ymax) in objects
    )
    return (
        "<annotation>\n<folder>n01</folder><filename>x</filename><source><database>ILSVRC_2012"
        f"</database></source><size><width>{width}</width><height>{height}</height><depth>3"
        f"</depth></size><segmented>0</segmented>{found}</annotation>\n"
    ).encode()


def archive(members: Mapping[str, bytes]) -> bytes:
    """A compressed tar, as ILSVRC2012_bbox_train_v2.tar.gz."""
    return gzip.compress(tar(members), mtime=0)


WHOLE = (0, 0, 32, 24)
# Annotations of three images of each of n01 and n02, and of one that is not there.
TRAIN = {
    "n01/n01_0.xml": annotation(Named("n01", (8, 6, 16, 18)), Named("n01", (16, 12, 99, 24))),
    # A box of another class, one with words in place of its class, and one without an area.
    "n02/n02_1.xml": annotation(
        Named("n01", WHOLE), Named("Scottish_deerhound", WHOLE), Named("n02", (5, 5, 5, 9))
    ),
    "n02/n02_0.xml": b"<annotation>",
    "n02/n02_77.xml": annotation(Named("n02", WHOLE)),
    "n02/README": b"no annotation",
}
VALIDATION = {"./val/v1.xml": annotation(Named("n02", (0, 0, 8, 24)))}
# What index counts of both, beside three images of each class and one that validates.
COUNTS = {
    "images": 3,
    "boxes": 4,
    "clamped": 1,
    "empty": 1,
    "ofOtherClasses": 1,
    "damagedAnnotations": 1,
    "annotationsWithoutImage": 1,
}
