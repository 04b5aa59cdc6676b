"""The values of --networks: a network as tables name it, such as resnet-152, and its fields."""

from __future__ import annotations

import re
from dataclasses import dataclass

from imagenet_operator.api import parse
from imagenet_operator.api.base import Manifest
from imagenet_operator.api.dataset import DatasetSpec
from imagenet_operator.api.frameworks import NETWORKS
from imagenet_operator.api.networks import Network as Model
from imagenet_operator.api.networks import own_side
from imagenet_operator.errors import ImageNetJobError, Problem


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
    """Return a manifest with another network.

    Images that are as large as the former network's own become as large as those of the new one;
    other images stay.
    """
    training = manifest["spec"]["training"]
    model = {key: value for key, value in training["model"].items() if key != "numLayers"}
    model |= {"network": network.name} | (
        {} if network.layers is None else {"numLayers": network.layers}
    )
    channels, *sides = _image_shape(manifest)
    if set(sides) == {own_side(training["model"]["network"])}:
        model["imageShape"] = [channels, *[own_side(network.name)] * 2]
    return manifest | {"spec": manifest["spec"] | {"training": training | {"model": model}}}


def record_problems(manifest: Manifest, changed: Manifest) -> list[Problem]:
    """Return why the dataset's records are too small for larger images than the manifest's.

    Args:
        manifest: A valid job.
        changed: The job with another network.
    """
    side = min(_image_shape(changed)[1:])
    edge = _shorter_edge(parse(manifest).spec.dataset)
    if edge is None or edge[1] >= side or side <= min(_image_shape(manifest)[1:]):
        return []
    path, pixels = edge
    network = changed["spec"]["training"]["model"]["network"]
    return [
        Problem(
            path,
            f"{pixels} pixels are too small for {network}, whose images have {side}",
            f"write at least {side}, or leave {network} out of --networks",
        )
    ]


def _image_shape(manifest: Manifest) -> list[int]:
    given = manifest["spec"]["training"]["model"].get("imageShape")
    return list(given or Model.model_fields["image_shape"].default)


def _shorter_edge(dataset: DatasetSpec) -> tuple[str, int] | None:
    """Return the field and pixels of the records' shorter edge; None if they vary."""
    if dataset.preprocessing.resize is not None:
        return "spec.dataset.preprocessing.resize", dataset.preprocessing.resize
    edge = dataset.source.fields.shorter_edge
    return (
        None if edge is None else (f"spec.dataset.source.{dataset.source.kind}.{edge[0]}", edge[1])
    )
