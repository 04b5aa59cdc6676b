"""The network and optimizer that are asked for, in any framework, and small residual networks."""

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from imagenet_spec.names import HINT, nearest
from imagenet_spec.program.train import SMALL_IMAGE, ModelOptions
from imagenet_workloads.errors import InputError


@dataclass(frozen=True)
class NetworkRequest:
    """One network wanted.

    Attributes:
        network: the family's name.
        num_layers: its depth; families of one depth ignore it.
        classes: outputs.
        image_shape: channels, height, width.
        dtype: precision of weights and activations, float32 or float16.
        smoothing: of labels, for a network that ends in its loss.
    """

    network: str
    num_layers: int | None
    classes: int
    image_shape: tuple[int, int, int]
    dtype: str = "float32"
    smoothing: float = 0.0


def initializer_of(model: ModelOptions) -> str:
    """Name the initializer; `default` is that of MXNet's example for the network."""
    if model.initializer != "default":
        return model.initializer
    return {"alexnet": "normal", "vgg": "xavier"}.get(model.network, "he")


def depth(request: NetworkRequest, known: Collection[int]) -> int:
    """Return the depth; InputError if the family has no such depth."""
    if request.num_layers is None or request.num_layers not in known:
        raise InputError(
            f"--num-layers (model.numLayers): {request.network} has no depth {request.num_layers} "
            f"for images of {request.image_shape[1]}x{request.image_shape[2]}; "
            f"write one of {', '.join(str(layers) for layers in sorted(known))}"
        )
    return request.num_layers


@dataclass(frozen=True)
class Family:
    """One family of a framework's networks.

    Attributes:
        builder: the function that builds it.
        depths: empty if there is only one.
        smallest: the minimum of an image's shorter side, in pixels.
        has_fixed_input: whether the shapes of its weights depend on the size of images.
    """

    builder: str
    depths: tuple[int, ...] = ()
    smallest: int = 1
    has_fixed_input: bool = False


def find_builder(request: NetworkRequest, families: Mapping[str, Family], framework: str) -> str:
    """Return the name of the function that builds a network; `resnet_cifar` for small images.

    InputError: unknown family or depth, or images that are too small.
    """
    family = families.get(request.network)
    if family is None:
        near = difflib.get_close_matches(request.network, families, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}? {framework} has" if near else f"{framework} has"
        raise InputError(
            f"--network (model.network): {request.network!r} is unknown; {hint}: "
            f"{', '.join(sorted(families))}"
        )
    builder = family.builder
    if request.network == "resnet" and request.image_shape[1] <= SMALL_IMAGE:
        builder = "resnet_cifar"
    elif family.depths:
        depth(request, family.depths)
    if min(request.image_shape[1:]) < family.smallest:
        raise InputError(
            f"--image-shape (model.imageShape): {request.network} takes images of at least "
            f"{family.smallest} pixels a side, not "
            f"{request.image_shape[1]}x{request.image_shape[2]}"
        )
    return builder


# From this depth on, units are bottlenecks.
BOTTLENECK_DEPTH = 164


def require_optimizer(framework: str, name: str, known: Collection[str]) -> None:
    """Raise InputError if a framework does not know an optimizer's name."""
    if name.lower() in known:
        return
    meant = nearest(name, known, HINT)
    hint = f"did you mean {meant}? " if meant else ""
    raise InputError(
        f"--optimizer (optimizer.name): {framework} has no {name!r} here; {hint}write one of "
        f"{', '.join(known)}, or --framework MXNet (framework: MXNet)"
    )


@dataclass(frozen=True)
class Residual:
    """A network of three stages of so many units, after a convolution of `first` filters."""

    units: int
    first: int
    filters: tuple[int, ...]
    bottleneck: bool


def plan_residual(request: NetworkRequest) -> Residual:
    """Plan a network of depths such as 8, 20, 56, 110 and 164; InputError for any other depth."""
    layers = request.num_layers or 0
    if layers >= BOTTLENECK_DEPTH and (layers - 2) % 9 == 0:
        return Residual((layers - 2) // 9, 16, (64, 128, 256), True)
    if 8 <= layers < BOTTLENECK_DEPTH and (layers - 2) % 6 == 0:
        return Residual((layers - 2) // 6, 16, (16, 32, 64), False)
    raise InputError(
        f"--num-layers (model.numLayers): {request.network} has no depth {request.num_layers} for "
        "images of up to 32 pixels; write 6n+2, such as 8, 20, 56 or 110 (from 164 on 9n+2)"
    )
