"""What a family of networks is asked for, in any framework."""

from collections.abc import Collection
from dataclasses import dataclass

from imagenet_workloads.errors import InputError


@dataclass(frozen=True)
class Request:
    """One network wanted.

    Attributes:
        network: the family's name.
        num_layers: its depth; families of one depth ignore it.
        classes: outputs.
        image_shape: channels, height, width.
        dtype: precision of weights and activations, float32 or float16.
    """

    network: str
    num_layers: int | None
    classes: int
    image_shape: tuple[int, int, int]
    dtype: str = "float32"


def depth(request: Request, known: Collection[int]) -> int:
    """Check the depth against those a family has.

    Raises:
        InputError: the depth is not one of them.
    """
    if request.num_layers is None or request.num_layers not in known:
        raise InputError(
            f"--num-layers: {request.network} has no depth {request.num_layers} for images of "
            f"{request.image_shape[1]}x{request.image_shape[2]}; "
            f"write one of {', '.join(str(layers) for layers in sorted(known))}"
        )
    return request.num_layers
