"""The values of --strategies: a strategy with its framework or kvstore, and its manifest block.

`api.compatibility` has the table of frameworks, formats and strategies. A manifest keeps its
framework and format if the table has a row for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

from imagenet_operator.api.base import Manifest
from imagenet_operator.api.compatibility import COMBINATIONS, Combination
from imagenet_operator.api.strategies import STRATEGIES
from imagenet_operator.errors import ImageNetJobError
from imagenet_spec.frameworks import DEFAULT_FORMAT, DEFAULT_FRAMEWORK

_FORMS = "KIND, KIND:FRAMEWORK or parameterServer:KVSTORE"


class UnknownVariant(ImageNetJobError):  # noqa: N818 - says what was named
    """--strategies names an unknown strategy."""


@dataclass(frozen=True)
class Variant:
    """One of the strategies of a sweep.

    Attributes:
        label: Its name in tables.
        kind: The strategy's field in a manifest; None leaves the manifest as it is.
        framework: The framework; None for the manifest's, if that has the strategy.
        kv_store: MXNet's kvstore; None for the manifest's or the strategy's default.
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
    row = _row(variant, training.get("framework"), preprocessing.get("format"))
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


def _row(variant: Variant, framework: str | None, form: str | None) -> Combination:
    """Return the strategy's row that is nearest to the manifest's framework and format."""
    rows = [
        row
        for row in COMBINATIONS
        if row.strategy == variant.kind and variant.framework in (None, row.framework)
    ]
    wanted = (variant.framework or framework or DEFAULT_FRAMEWORK, form or DEFAULT_FORMAT)
    return max(rows, key=lambda row: (row.framework == wanted[0], row.format == wanted[1]))
