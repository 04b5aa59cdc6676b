"""The annotation of one image: the XML of Pascal VOC, which ILSVRC's boxes have too.

    <annotation>
      <size><width>500</width><height>375</height></size>
      <object><name>n01440764</name>
        <bndbox><xmin>12</xmin><ymin>34</ymin><xmax>250</xmax><ymax>300</ymax></bndbox>
      </object>
    </annotation>

The text is not trusted. A document type is an error, so no entity is ever expanded.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple
from xml.parsers import expat

from imagenet_workloads.records.format import Box

LARGEST = 1 << 16
"""The most bytes of an annotation; those of ILSVRC have at most a few thousand."""

_DEEPEST = 8
# Six digits place an edge of the longest JPEG to a tenth of a pixel.
_DIGITS = 6
_LONGEST_EDGE = 1e6
_ROOT = "annotation"
_SIZE = (_ROOT, "size")
_OBJECT = (_ROOT, "object")
_BOX = (*_OBJECT, "bndbox")


class Annotation(NamedTuple):
    """The boxes of one image.

    Attributes:
        names: The class of each box.
        boxes: The boxes, inside the image.
        clamped: The boxes that reached beyond the image.
        empty: The boxes without an area inside the image, which are left out.
    """

    names: tuple[str, ...]
    boxes: tuple[Box, ...]
    clamped: int
    empty: int


def parse(content: bytes) -> Annotation:
    """Return the boxes of an annotation.

    Raises:
        ValueError: It is not such XML, or a number is missing or wrong.
    """
    if len(content) > LARGEST:
        raise ValueError(f"has {len(content)} bytes; at most {LARGEST} are read")
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
    return _annotation(elements)


class _Elements:
    """The elements that matter, as expat reports them.

    Attributes:
        size: The texts of `size`.
        objects: Of each object its name, and the texts of `bndbox`.
        text: The text since the last tag.
    """

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


def _annotation(elements: _Elements) -> Annotation:
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
    """Return the boxes of an image after its EXIF orientation, 1 to 8, is applied to its pixels."""
    return tuple(_upright(box, orientation) for box in boxes)


def _upright(box: Box, orientation: int) -> Box:
    left, top, right, bottom = box
    if orientation in _MIRRORED_X:
        left, right = 1 - right, 1 - left
    if orientation in _MIRRORED_Y:
        top, bottom = 1 - bottom, 1 - top
    if orientation in _SIDEWAYS:
        left, top, right, bottom = top, left, bottom, right
    return Box(*map(_clamp, (left, top, right, bottom)))


# The stored pixels are mirrored first, and transposed after it.
_MIRRORED_X = frozenset((2, 3, 7, 8))
_MIRRORED_Y = frozenset((3, 4, 6, 7))
_SIDEWAYS = frozenset((5, 6, 7, 8))
