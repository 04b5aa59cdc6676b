"""The bounding boxes of a dataset's images, from archives of annotations or from those beside them.

An annotation is the XML of Pascal VOC, which ILSVRC's boxes have too:

    <annotation>
      <size><width>500</width><height>375</height></size>
      <object><name>n01440764</name>
        <bndbox><xmin>12</xmin><ymin>34</ymin><xmax>250</xmax><ymax>300</ymax></bndbox>
      </object>
    </annotation>

The text is not trusted. A document type is an error, so no entity is ever expanded.

ILSVRC2012_bbox_train_v2.tar.gz holds CLASS/NAME.xml for the image CLASS/NAME.JPEG, and
ILSVRC2012_bbox_val_v3.tgz holds val/NAME.xml for the validation image NAME.JPEG. Index reads them
and writes each image's boxes into the plan, so pack needs no archive. An archive may be a file of a
server or an object of a bucket; it is read once, from its start to its end. A source such as
Kaggle's tree may have annotations of its own.
"""

import hashlib
import logging
import math
import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Protocol
from xml.parsers import expat

from imagenet_workloads.errors import InputError, of_field
from imagenet_workloads.prepare.containers.archive import Kind
from imagenet_workloads.prepare.containers.tar import TarArchive
from imagenet_workloads.prepare.plan import PlannedImage
from imagenet_workloads.prepare.source import LARGEST_ANNOTATION, Annotations
from imagenet_workloads.prepare.stores.blob import Blob, readable
from imagenet_workloads.prepare.stores.compressed import decompressed
from imagenet_workloads.prepare.stores.remote import HeaderWindow
from imagenet_workloads.records.format import Box

_log = logging.getLogger(__name__)

_DEEPEST = 8
# Six digits place an edge of the longest JPEG to a tenth of a pixel.
_DIGITS = 6
_LONGEST_EDGE = 1e6
_ROOT = "annotation"
_SIZE = (_ROOT, "size")
_OBJECT = (_ROOT, "object")
_BOX = (*_OBJECT, "bndbox")
# The stored pixels are mirrored first, and transposed after it.
_MIRRORED_X = frozenset((2, 3, 7, 8))
_MIRRORED_Y = frozenset((3, 4, 6, 7))
_SIDEWAYS = frozenset((5, 6, 7, 8))

COUNTS = (
    *("images", "boxes", "clamped", "empty", "ofOtherClasses"),
    *("damagedAnnotations", "annotationsWithoutImage"),
)
"""The counts of a dataset with boxes, in dataset.json and in the result of index."""

# ILSVRC2012 has 600,000 of each.
_MOST = 4_000_000
_NAMED = 5
_VALIDATION_FOLDER = "val"
_EDGES = struct.Struct("<4d")
_SYNSET = re.compile(r"n[0-9]{8}")


class Annotation(NamedTuple):
    """The boxes of one image."""

    names: tuple[str, ...]
    boxes: tuple[Box, ...]
    clamped: int  # boxes that reached beyond the image
    empty: int  # boxes without an area inside the image, which are left out


def parse_annotation(content: bytes) -> Annotation:
    """Parse an annotation.

    Raises:
        ValueError: It is not such XML, or a number is missing or wrong.
    """
    if len(content) > LARGEST_ANNOTATION:
        raise ValueError(f"has {len(content)} bytes; at most {LARGEST_ANNOTATION} are read")
    elements = _Elements()
    # An encoding of its own would make expat look for a codec of any name.
    parser = expat.ParserCreate("UTF-8")
    parser.StartDoctypeDeclHandler = _refuse_document_type
    parser.StartElementHandler = elements.start
    parser.EndElementHandler = elements.end
    parser.CharacterDataHandler = elements.text.append
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ValueError(f"is not valid XML: {error}") from None
    width, height = (_number(elements.size, name) for name in ("width", "height"))
    if not (1 <= width <= _LONGEST_EDGE and 1 <= height <= _LONGEST_EDGE):
        raise ValueError(f"has an image of {width:g}x{height:g} pixels")
    names, boxes, clamped = [], [], 0
    for found in elements.objects:
        xs = sorted(_number(found, name) / width for name in ("xmin", "xmax"))
        ys = sorted(_number(found, name) / height for name in ("ymin", "ymax"))
        box = Box(*map(_clamp, (xs[0], ys[0], xs[1], ys[1])))
        if box.xmin < box.xmax and box.ymin < box.ymax:
            names.append(found.get("name", ""))
            boxes.append(box)
            clamped += min(xs[0], ys[0]) < 0 or max(xs[1], ys[1]) > 1
    return Annotation(tuple(names), tuple(boxes), clamped, len(elements.objects) - len(boxes))


class _Elements:
    """The texts of the elements that matter, as expat reports them."""

    def __init__(self) -> None:
        self.size: dict[str, str] = {}
        self.objects: list[dict[str, str]] = []
        self.text: list[str] = []
        self._path: tuple[str, ...] = ()

    def start(self, name: str, _: Mapping[str, str]) -> None:
        if len(self._path) == _DEEPEST:
            raise ValueError(f"nests elements deeper than {_DEEPEST}")
        if not self._path and name != _ROOT:
            raise ValueError(f"begins with <{name[:50]}>, not <{_ROOT}>")
        self._path += (name,)
        self.text.clear()
        if self._path == _OBJECT:
            self.objects.append({})

    def end(self, name: str) -> None:
        self._path = self._path[:-1]
        text = "".join(self.text).strip()
        self.text.clear()
        if self._path == _SIZE:
            self.size[name] = text
        elif self._path == _BOX or (self._path == _OBJECT and name == "name"):
            self.objects[-1][name] = text


def _refuse_document_type(*_: object) -> None:
    raise ValueError("has a document type, which no annotation needs")


def _number(texts: Mapping[str, str], name: str) -> float:
    text = texts.get(name)
    if text is None:
        raise ValueError(f"lacks {name}")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"has a {name} that is no number: {text[:50]!r}")
    return value


def _clamp(value: float) -> float:
    return round(min(max(value, 0.0), 1.0), _DIGITS)


def upright(boxes: tuple[Box, ...], orientation: int) -> tuple[Box, ...]:
    """The boxes of an image after its EXIF orientation, 1 to 8, is applied to its pixels."""
    turned = []
    for left, top, right, bottom in boxes:
        if orientation in _MIRRORED_X:
            left, right = 1 - right, 1 - left
        if orientation in _MIRRORED_Y:
            top, bottom = 1 - bottom, 1 - top
        edges = (left, top, right, bottom)
        if orientation in _SIDEWAYS:
            edges = (top, left, bottom, right)
        turned.append(Box(*map(_clamp, edges)))
    return tuple(turned)


class AnnotatedImage(NamedTuple):
    """An image that may have an annotation."""

    class_name: str
    name: str
    is_validation: bool


class Boxes(Protocol):
    """The boxes of a dataset's images."""

    def fingerprint(self) -> str:
        """Return what identifies them, for the dataset's key."""

    def count(self, images: Iterable[AnnotatedImage], classes: Collection[str]) -> dict[str, int]:
        """Return the counts of the images' boxes, as JSON values."""

    def added(
        self, images: Iterable[PlannedImage], classes: Sequence[str], is_validation: bool
    ) -> Iterator[PlannedImage]:
        """Yield the images of a split with their boxes."""


class _Stored(NamedTuple):
    """An `Annotation` in few bytes, because there are many."""

    names: tuple[str, ...]
    edges: bytes
    clamped: int
    empty: int


class BoundingBoxes:
    """The annotations of all archives."""

    def __init__(
        self,
        archives: Sequence[Callable[[], Blob]],
        scratch: Path,
        of_source: Annotations | None = None,
    ) -> None:
        """Read archives, each a tar that may be compressed, and annotations beside the images.

        Raises:
            InputError: An archive is missing, damaged or too large, or annotates an image twice.
        """
        where = []
        self._found: dict[str, _Stored] = {}
        # Nearly all annotations of a class have the same names.
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._boxes = self._damaged = 0
        for archive in archives:
            with of_field("source.boundingBoxes"), closing(_opened(archive(), scratch)) as blob:
                where.append(blob.where)
                for member in TarArchive(blob).members():
                    if member.kind is Kind.FILE and member.name.lower().endswith(".xml"):
                        # One byte too many suffices to refuse a file of any size.
                        content = blob.read(member.offset, min(member.size, LARGEST_ANNOTATION + 1))
                        self._add(blob.where, member.name, content)
        if of_source is not None:
            where.append(of_source.where)
            for name, content in of_source:
                self._add(of_source.where, name, content)
        self._where = ", ".join(where)
        if self._damaged:
            _log.warning("skipped %d damaged annotations of %s", self._damaged, self._where)

    def fingerprint(self) -> str:
        """The hex SHA-256 over all annotations, the same for any order of the archives."""
        digest = hashlib.sha256(b"%d\n" % self._damaged)
        for key in sorted(self._found):
            found = self._found[key]
            texts = "\0".join((key, *found.names)).encode("utf-8", "surrogateescape")
            digest.update(b"%s\0%d %d\0%s\n" % (texts, found.clamped, found.empty, found.edges))
        return digest.hexdigest()

    def of(self, image: AnnotatedImage, classes: Collection[str]) -> tuple[Box, ...]:
        """The boxes of an image, as fractions of the image as it is stored.

        A box of another class is left out, because a record has one label. Some of ILSVRC's boxes
        have words in place of a class. They stay, as in TensorFlow's script.
        """
        found = self._stored(image)
        if found is None:
            return ()
        return tuple(
            Box._make(edges)
            for name, edges in zip(found.names, _EDGES.iter_unpack(found.edges), strict=True)
            if name == image.class_name or not (name in classes or _SYNSET.fullmatch(name))
        )

    def count(self, images: Iterable[AnnotatedImage], classes: Collection[str]) -> dict[str, int]:
        """Count the boxes of the dataset.

        Raises:
            InputError: None of the images has an annotation.
        """
        counts = dict.fromkeys(COUNTS, 0)
        annotated = 0
        for image in images:
            found = self._stored(image)
            if found is not None:
                boxes = len(self.of(image, classes))
                annotated += 1
                counts["images"] += boxes > 0
                counts["boxes"] += boxes
                counts["clamped"] += found.clamped
                counts["empty"] += found.empty
                counts["ofOtherClasses"] += len(found.names) - boxes
        if not annotated:
            raise InputError(
                f"{self._where}: has no annotation of any image; write an archive of "
                f"CLASS/NAME.xml for the images CLASS/NAME, or of {_VALIDATION_FOLDER}/NAME.xml "
                "for validation images"
            )
        counts["damagedAnnotations"] = self._damaged
        counts["annotationsWithoutImage"] = len(self._found) - annotated
        return counts

    def added(
        self, images: Iterable[PlannedImage], classes: Sequence[str], is_validation: bool
    ) -> Iterator[PlannedImage]:
        names = frozenset(classes)
        for image in images:
            annotated = AnnotatedImage(classes[image.label], image.name, is_validation)
            yield image._replace(boxes=self.of(annotated, names))

    def _stored(self, image: AnnotatedImage) -> _Stored | None:
        stem = _stem(image.name)
        found = self._found.get(f"{image.class_name}/{stem}")
        if found is None and image.is_validation:
            return self._found.get(f"{_VALIDATION_FOLDER}/{stem}")
        return found

    def _add(self, where: str, name: str, content: bytes) -> None:
        try:
            found = parse_annotation(content)
        except ValueError as error:
            self._damaged += 1
            if self._damaged <= _NAMED:
                _log.warning("%s: skipped %s: %s", where, readable(name), error)
            return
        key = f"{Path(name).parent.name}/{_stem(name)}"
        if key in self._found:
            raise InputError(
                f"{where}: {readable(name)}: a second annotation for the image "
                f"{readable(key)}; remove one of them"
            )
        self._boxes += len(found.boxes)
        if max(len(self._found), self._boxes) >= _MOST:
            raise InputError(f"{where}: has more than {_MOST} annotations or boxes")
        names = self._names.setdefault(found.names, found.names)
        edges = b"".join(_EDGES.pack(*box) for box in found.boxes)
        self._found[key] = _Stored(names, edges, found.clamped, found.empty)


def _opened(archive: Blob, scratch: Path) -> Blob:
    """Open a tar so that few requests read it; closes the file on an error."""
    blob = archive
    try:
        blob = decompressed(archive, scratch)
        return HeaderWindow(blob, LARGEST_ANNOTATION + 1)
    except BaseException:
        blob.close()
        raise


def _stem(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[0]
