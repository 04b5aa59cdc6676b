"""The plan of the residual networks for images of up to 32 pixels, of depth 6n+2 or 9n+2.

Pre-activation units (He et al. 2016, "Identity Mappings in Deep Residual Networks", section 4 and
its CIFAR set-up), as in MXNet's example/image-classification/symbols/resnet.py.
"""

from dataclasses import dataclass

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.request import Request

# Up to this height, resnet is the one of the CIFAR experiments.
SMALL_IMAGE = 32
# From this depth on, units are bottlenecks.
BOTTLENECK_DEPTH = 164


@dataclass(frozen=True)
class Residual:
    """A network of three stages.

    Attributes:
        units: of each stage.
        first: filters of the convolution before the stages.
        filters: of each stage.
        bottleneck: whether units are.
    """

    units: int
    first: int
    filters: tuple[int, ...]
    bottleneck: bool


def plan(request: Request) -> Residual:
    """Plan a network of depths such as 8, 20, 56, 110 and 164.

    Raises:
        InputError: there is no such depth.
    """
    layers = request.num_layers or 0
    if layers >= BOTTLENECK_DEPTH and (layers - 2) % 9 == 0:
        return Residual((layers - 2) // 9, 16, (64, 128, 256), True)
    if 8 <= layers < BOTTLENECK_DEPTH and (layers - 2) % 6 == 0:
        return Residual((layers - 2) // 6, 16, (16, 32, 64), False)
    raise InputError(
        f"--num-layers: {request.network} has no depth {request.num_layers} for images of up to 32 "
        "pixels; write 6n+2, such as 8, 20, 56 or 110 (from 164 on 9n+2)"
    )
