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
