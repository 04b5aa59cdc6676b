"""The values of --networks: a network as tables name it, such as resnet-152, and its fields."""

from __future__ import annotations

import re
from dataclasses import dataclass

from imagenet_operator.api.base import Manifest
from imagenet_operator.api.frameworks import NETWORKS
from imagenet_operator.errors import ImageNetJobError


class UnknownNetwork(ImageNetJobError):  # noqa: N818 - says what was named
    """--networks names an unknown network."""


@dataclass(frozen=True)
class Network:
    """One of the networks of a sweep.

    Attributes:
        label: Its name in tables.
        name: The value of `model.network`.
        layers: The value of `model.numLayers`; None for a network without depths.
    """

    label: str
    name: str
    layers: int | None = None


def read(text: str) -> Network:
    """Parse one item of --networks: NETWORK, or NETWORK-LAYERS.

    Raises:
        UnknownNetwork: It is not one of the known forms.
    """
    if text in NETWORKS:
        return Network(text, text)
    deep = re.fullmatch(r"(.+)-([1-9][0-9]{0,3})", text)
    if deep is not None and deep[1] in NETWORKS:
        return Network(text, deep[1], int(deep[2]))
    raise UnknownNetwork(
        f"{text!r} is no network; write a name that `imagenetctl networks` lists, or "
        "NAME-LAYERS such as resnet-50"
    )


def applied(network: Network, manifest: Manifest) -> Manifest:
    """Return a manifest with another network; the shape of its images stays."""
    training = manifest["spec"]["training"]
    model = {key: value for key, value in training["model"].items() if key != "numLayers"}
    model |= {"network": network.name} | (
        {} if network.layers is None else {"numLayers": network.layers}
    )
    return manifest | {"spec": manifest["spec"] | {"training": training | {"model": model}}}
