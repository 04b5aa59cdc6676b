"""What a sweep compares: the values of --strategies and --networks, and a manifest with each.

A strategy has its framework or kvstore, and its block in the manifest. `resource.compatibility` has
the table of frameworks, formats and strategies. A manifest keeps its framework and format if the
table has a row for them. A network is named as in tables, such as resnet-152.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

from imagenet_spec.errors import ImageNetJobError, Problem
from imagenet_spec.frameworks import DEFAULT_FORMAT, DEFAULT_FRAMEWORK
from imagenet_spec.resource.base import Manifest
from imagenet_spec.resource.compatibility import COMBINATIONS
from imagenet_spec.resource.dataset import DatasetSpec
from imagenet_spec.resource.frameworks import NETWORKS
from imagenet_spec.resource.networks import Network as Model
from imagenet_spec.resource.networks import own_side
from imagenet_spec.resource.strategies import STRATEGIES
from imagenet_spec.validate import parse

_FORMS = "KIND, KIND:FRAMEWORK or parameterServer:KVSTORE"


class UnknownVariant(ImageNetJobError):  # noqa: N818 - says what was named
    """--strategies names an unknown strategy."""


@dataclass(frozen=True)
class Variant:
    """One of the strategies of a sweep, by its field in a manifest and MXNet's kvstore.

    What is None stays as in the manifest.
    """

    label: str
    kind: str | None = None
    framework: str | None = None
    kv_store: str | None = None

    @property
    def slug(self) -> str:
        """The variant as part of a job's name; a kvstore implies its strategy."""
        kebab = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", self.kv_store or self.label)
        return re.sub(r"[^a-z0-9]+", "-", kebab.lower()).strip("-")


def own(manifest: Manifest) -> Variant:
    """Return the strategy of a valid manifest."""
    (kind,) = manifest["spec"]["training"]["strategy"]
    return Variant(str(kind))


def read(text: str) -> Variant:
    """Parse one item of --strategies.

    Raises:
        UnknownVariant: It is not one of the known forms.
    """
    kind, colon, detail = text.partition(":")
    frameworks = [row.framework for row in COMBINATIONS if row.strategy == kind]
    if not frameworks:
        kinds = ", ".join(STRATEGIES)
        raise UnknownVariant(f"{text!r}: {kind!r} is not a strategy; write one of {kinds}")
    if not colon:
        return Variant(text, kind)
    if detail in frameworks:
        return Variant(text, kind, framework=detail)
    field = STRATEGIES[kind].model_fields.get("kv_store")
    stores: tuple[str, ...] = () if field is None else get_args(field.annotation)
    if detail in stores:
        return Variant(text, kind, kv_store=detail)
    choices = ", ".join(f"{kind}:{word}" for word in (*dict.fromkeys(frameworks), *stores))
    raise UnknownVariant(f"{text!r} is not {_FORMS}; write {kind}, or one of {choices}")


def framework_of(manifest: Manifest) -> str:
    """Return the framework that a manifest trains in."""
    return str(manifest["spec"]["training"].get("framework", DEFAULT_FRAMEWORK))


def applied(variant: Variant, manifest: Manifest) -> Manifest:
    """Return a valid manifest with another strategy, and the framework and format that it needs."""
    if variant.kind is None:
        return manifest
    training, dataset = manifest["spec"]["training"], manifest["spec"]["dataset"]
    preprocessing = dataset.get("preprocessing", {})
    # The strategy's row that is nearest to the manifest's framework and format.
    rows = [
        row
        for row in COMBINATIONS
        if row.strategy == variant.kind and variant.framework in (None, row.framework)
    ]
    wanted = (
        variant.framework or training.get("framework") or DEFAULT_FRAMEWORK,
        preprocessing.get("format") or DEFAULT_FORMAT,
    )
    row = max(rows, key=lambda row: (row.framework == wanted[0], row.format == wanted[1]))
    # The block of the manifest's own strategy keeps its options.
    block = dict(training["strategy"].get(variant.kind) or {})
    if variant.kv_store is not None:
        block["kvStore"] = variant.kv_store
    training = training | {"strategy": {variant.kind: block}}
    if row.framework != framework_of(manifest):
        training["framework"] = row.framework
    if row.format != preprocessing.get("format", DEFAULT_FORMAT):
        dataset = dataset | {"preprocessing": preprocessing | {"format": row.format}}
    return manifest | {"spec": manifest["spec"] | {"training": training, "dataset": dataset}}


class UnknownNetwork(ImageNetJobError):  # noqa: N818 - says what was named
    """--networks names an unknown network."""


@dataclass(frozen=True)
class Network:
    """One of the networks of a sweep; one without depths has no layers."""

    label: str
    name: str
    layers: int | None = None


def read_network(text: str) -> Network:
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


def with_network(network: Network, manifest: Manifest) -> Manifest:
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
    """Return why the dataset's records are too small for larger images than the manifest's."""
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
