"""How an image becomes what the network sees, by the command line and the dataset."""

from dataclasses import dataclass

from imagenet_workloads.train.options import Options

IMAGENET_MEAN = (123.68, 116.779, 103.939)
# From this edge on, validation crops 7/8 of the image, as is usual for 224 of 256 pixels.
CROPPED_EDGE = 64


@dataclass(frozen=True)
class Inputs:
    """What result.json tells `imagenet-predict`.

    Attributes:
        image_shape: channels, height, width.
        mean: red, green, blue in 0..255, subtracted.
        std: likewise, divides.
        resize: shorter edge in pixels before the central crop; 0 is as it comes.
    """

    image_shape: tuple[int, int, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    resize: int


def choose_inputs(
    options: Options,
    mean: tuple[float, float, float] = IMAGENET_MEAN,
    std: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> Inputs:
    """Give what the command line says, and where it is silent the dataset's own mean and std."""
    edge = min(options.model.image_shape[1:])
    resize = options.data.validation_resize
    if resize is None:
        resize = round(edge * 8 / 7) if edge >= CROPPED_EDGE else 0
    return Inputs(
        options.model.image_shape,
        options.data.rgb_mean or mean,
        options.data.rgb_std or std,
        resize,
    )


def plain_inputs(image_shape: tuple[int, int, int]) -> Inputs:
    """Give what made-up images need, which is nothing."""
    return Inputs(image_shape, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 0)
