"""The way of a picture: from an image file to the numbers that validation gives the network.

The training chooses it by the command line and the dataset, and writes it into result.json as one
ordered list, `inputs.steps`. `batches` makes the validation images by it; `prediction` and
`exporting` read it again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from imagenet_spec.program.kinds import ImageSize
from imagenet_spec.program.train import ModelOptions, Options
from imagenet_workloads.data.reader import is_ordered
from imagenet_workloads.dataset import Dataset, Packing
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields

IMAGENET_MEAN = (123.68, 116.779, 103.939)
# From this edge on, validation crops 7/8 of the image, as is usual for 224 of 256 pixels.
CROPPED_EDGE = 64

UNKNOWN = "unknown"
# Pack reduces a JPEG by 2, 4 or 8 while it is decoded, and then interpolates.
_BY_DECODER, _NONE = "dct", "none"


Shape = tuple[int, int, int]
"""Channels, height, width."""


def shape_of_epoch(shape: Shape, sizes: Sequence[ImageSize], epoch: int) -> Shape:
    """Return the shape of training images in an epoch, from 0; the epochs of `sizes` rise from 0.

    >>> shape_of_epoch((3, 224, 224), (ImageSize(0, 128), ImageSize(6, 160)), 6)
    (3, 160, 160)
    """
    begun = [one.size for one in sizes if one.epoch <= epoch]
    return (shape[0], begun[-1], begun[-1]) if begun else shape


def largest_shape(shape: Shape, sizes: Sequence[ImageSize]) -> Shape:
    """Return the shape of the largest training images."""
    if not sizes:
        return shape
    size = max(one.size for one in sizes)
    return (shape[0], size, size)


def validation_shape(model: ModelOptions) -> Shape:
    """Return the shape of validation images, which is that of the exported model's input."""
    size, shape = model.validation_size, model.image_shape
    return shape if size is None else (shape[0], size, size)


def count_sizes(model: ModelOptions) -> int:
    """Return how many sizes of images the network sees, with those of validation."""
    shape = model.image_shape
    trained = {shape_of_epoch(shape, model.image_sizes, one.epoch) for one in model.image_sizes}
    return len((trained or {shape}) | {validation_shape(model)})


@dataclass(frozen=True)
class Inputs:
    """How an image becomes what the network sees.

    Attributes:
        image_shape: channels, height, width of validation images.
        mean: red, green, blue in 0..255, subtracted; the first alone from grey.
        std: likewise, divides.
        resize: shorter edge in pixels before the central crop; 0 is as it comes.
        packings: what preparation did to the image first; None if the records do not say.
        antialias: whether validation's decoder reduces JPEGs. MXNet's ImageRecordIter does not.
    """

    image_shape: tuple[int, int, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    resize: int
    packings: tuple[Packing, ...] | None = None
    antialias: bool = True

    def document(self) -> dict[str, Any]:
        return {
            "imageShape": list(self.image_shape),
            "mean": list(self.mean),
            "std": list(self.std),
            "resize": self.resize,
            "steps": list(self._steps()),
        }

    def _steps(self) -> Iterator[dict[str, Any]]:
        channels, height, width = self.image_shape
        yield {"step": "decode", "orientation": "upright", "channels": "RGB"}
        if self.packings is None:
            yield {"step": "resize", "by": "packing", "shorterEdge": UNKNOWN}
        for packing in self.packings or ():
            if packing.resize is not None:
                yield _resize("packing", packing.resize, _BY_DECODER)
            yield {
                "step": "jpeg",
                "quality": packing.quality,
                "subsampling": "4:2:0",
                "codec": packing.codec,
                # Without a resize, such an image is copied.
                "keepsColourJpeg": packing.resize is None,
            }
        if channels == 1:
            yield {"step": "grey", "weights": [0.299, 0.587, 0.114]}
        if self.resize:
            # The decoder rounds the size of a reduced image up, and validation rounds it down.
            yield {
                **_resize("validation", self.resize, _BY_DECODER if self.antialias else _NONE),
                "dropsRemainder": self.antialias,
            }
        yield {"step": "centerCrop", "height": height, "width": width, "enlargesSmaller": True}
        yield {
            "step": "normalize",
            "scale": 1,
            "mean": list(self.mean[:channels]),
            "std": list(self.std[:channels]),
        }
        yield {"step": "layout", "axes": "NCHW", "channels": "RGB" if channels == 3 else "grey"}

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Read the `inputs` of a result.json; those of older versions have no steps.

        InputError if a field is missing or wrong, or a step is unknown.
        """
        shape = fields.integers("imageShape")
        if len(shape) != 3 or shape[0] not in (1, 3) or min(shape) < 1:
            raise fields.wrong(
                "imageShape", f"must be 1 or 3 channels, height, width, not {list(shape)}"
            )
        plain = cls(
            image_shape=(shape[0], shape[1], shape[2]),
            mean=fields.three_numbers("mean"),
            std=fields.three_numbers("std"),
            resize=fields.integer("resize"),
            antialias=False,
        )
        return plain._with_steps(fields) if fields.has("steps") else plain

    def _with_steps(self, fields: Fields) -> Self:
        steps, packings = list(fields.objects("steps")), list[Packing]()
        resize: int | None = None
        antialias, known = True, True
        for step in steps:
            name = step.text("step")
            if name == "jpeg":
                packings.append(Packing(resize, step.integer("quality"), step.text("codec")))
                resize = None
            elif name == "resize" and step.text("by") == "validation":
                antialias = step.text("antialias") == _BY_DECODER
            elif name == "resize" and step.values.get("shorterEdge") == UNKNOWN:
                known = False
            elif name == "resize":
                resize = step.integer("shorterEdge", minimum=1)
        found = type(self)(
            self.image_shape,
            self.mean,
            self.std,
            self.resize,
            tuple(packings) if known else None,
            antialias,
        )
        _require_alike(fields, steps, list(found._steps()))
        return found


def _resize(by: str, edge: int, antialias: str) -> dict[str, Any]:
    return {
        "step": "resize",
        "by": by,
        "shorterEdge": edge,
        "filter": "linear",
        "antialias": antialias,
    }


def _require_alike(
    fields: Fields, written: Sequence[Fields], expected: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse steps that this version does not take, so that none is left out in silence."""
    for number, (step, own) in enumerate(zip(written, expected, strict=False)):
        for name, value in own.items():
            if step.values.get(name) != value:
                raise fields.wrong(
                    f"steps[{number}]",
                    f"has {name} {step.values.get(name)!r}, and this program does {value!r} there; "
                    "use the version that trained",
                )
    if len(written) != len(expected):
        raise fields.wrong(
            "steps",
            f"has {len(written)} steps, and this program knows {len(expected)}; use the version "
            "that trained",
        )


def choose_inputs(options: Options, dataset: Dataset | None = None) -> Inputs:
    """Return what the command line says, and where it is silent the dataset's own mean and std.

    InputError if the dataset's std is 0, and the command line has none.
    """
    if options.data.rgb_std is None and dataset is not None and min(dataset.std) <= 0:
        colour = ("red", "green", "blue")[dataset.std.index(min(dataset.std))]
        raise InputError(
            f"the dataset {dataset.key}: its std is 0 for {colour}, as all its pixels are equally "
            f"{colour}, and pixels cannot be divided by it; write --rgb-std 1,1,1 (extraArgs)"
        )
    shape = validation_shape(options.model)
    edge = min(shape[1:])
    resize = options.data.validation_resize
    if resize is None:
        resize = round(edge * 8 / 7) if edge >= CROPPED_EDGE else 0
    return Inputs(
        shape,
        options.data.rgb_mean or (IMAGENET_MEAN if dataset is None else dataset.mean),
        options.data.rgb_std or ((1.0, 1.0, 1.0) if dataset is None else dataset.std),
        resize,
        None if dataset is None else dataset.packings,
        antialias=is_ordered(options),
    )


def plain_inputs(image_shape: tuple[int, int, int]) -> Inputs:
    """Return what made-up images need, which is nothing."""
    return Inputs(image_shape, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 0, ())
