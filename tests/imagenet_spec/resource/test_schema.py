"""The generated schema is structural, documented and bounded, whatever fields are added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from annotated_types import Gt, MaxLen
from pydantic import Field

from imagenet_operator.generate.crd import COLUMNS, definition
from imagenet_spec.resource import schema
from imagenet_spec.resource.base import Model, OneOf, Unit
from imagenet_spec.resource.job import root_schema
from imagenet_spec.rules import Rule
from support.sentences import assert_says

# What apiextensions/v1 takes in a structural schema, as far as this project may need it.
ALLOWED = {
    "type",
    "description",
    "properties",
    "required",
    "items",
    "additionalProperties",
    "default",
    "enum",
    "format",
    "pattern",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
}
TYPES = {"object", "array", "string", "integer", "number", "boolean"}
APPLY_LIMIT = 262_144
"""Bytes of annotations on an object, one of which kubectl apply fills with the whole manifest."""


FILLED = {
    "dataset.source.synthetic.classes",
    "dataset.source.synthetic.imagesPerClass",
    "dataset.source.synthetic.imageShape",
    "dataset.validation.split.imagesPerClass",
    "dataset.preprocessing",
    "dataset.preprocessing.format",
    "dataset.preprocessing.quality",
    "dataset.preprocessing.shards",
    "dataset.preprocessing.parallelism",
    "dataset.preprocessing.minImagesPerClass",
    "dataset.preprocessing.seed",
    "dataset.preprocessing.maxSkippedFraction",
    "training.framework",
    "training.strategy.parameterServer.kvStore",
    "training.strategy.parameterServer.servers",
    "training.strategy.parameterServer.servers.replicas",
    "training.strategy.single.kvStore",
    "training.strategy.horovod.rendezvous",
    "training.model.imageShape",
    "training.optimizer",
    "training.optimizer.name",
    "training.optimizer.learningRate",
    "training.optimizer.learningRateScaling",
    "training.optimizer.learningRateScalingBase",
    "training.optimizer.momentum",
    "training.optimizer.weightDecay",
    "training.optimizer.learningRateFactor",
    "training.optimizer.stepEpochs",
    "training.optimizer.warmupEpochs",
    "training.optimizer.warmupStrategy",
    "training.augmentation",
    "training.augmentation.randomCrop",
    "training.augmentation.randomMirror",
    "training.augmentation.randomResizedCrop",
    "training.augmentation.maxRandomH",
    "training.augmentation.maxRandomS",
    "training.augmentation.maxRandomL",
    "training.augmentation.maxRandomAspectRatio",
    "training.augmentation.maxRandomRotateAngle",
    "training.augmentation.maxRandomShearRatio",
    "training.augmentation.maxRandomScale",
    "training.augmentation.minRandomScale",
    "training.augmentation.maxRandomArea",
    "training.augmentation.minRandomArea",
    "training.augmentation.brightness",
    "training.augmentation.contrast",
    "training.augmentation.saturation",
    "training.augmentation.pcaNoise",
    "training.augmentation.padSize",
    "training.augmentation.fillValue",
    "training.checkpoint",
    "training.checkpoint.everyEpochs",
    "training.checkpoint.keep",
    "training.workers",
    "training.workers.replicas",
    "training.workers.gpus",
    "training.imagePullSecrets",
    "training.extraArgs",
    "runPolicy",
    "runPolicy.cleanPodPolicy",
    "runPolicy.progressDeadlineSeconds",
    "runPolicy.backoffLimit",
    "runPolicy.suspend",
    "runPolicy.schedulingPolicy",
    "runPolicy.schedulingPolicy.gang",
    "runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
    "runPolicy.retentionPolicy",
}
"""Fields of `spec` with a default in the definition of 0.1.0."""


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in node:
            yield from nodes(node[keyword], f"{path}[]")


ALL = dict(nodes(root_schema(has_descriptions=True)))
OURS = {path: node for path, node in ALL.items() if path.startswith((".spec", ".status"))}


def test_every_node_is_structural() -> None:
    assert not {path for path, node in ALL.items() if not is_structural(node)}


def is_structural(node: dict[str, Any]) -> bool:
    return node.keys() <= ALLOWED and node["type"] in TYPES


def test_every_object_says_what_is_in_it() -> None:
    shapes = ("properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields")
    objects = {path: node for path, node in OURS.items() if node["type"] == "object"}
    assert not {path for path, node in objects.items() if sum(s in node for s in shapes) != 1}


def test_every_field_has_its_sentence() -> None:
    fields = {path: node for path, node in OURS.items() if not path.endswith("[]")}
    assert not {path for path, node in fields.items() if not node["description"].endswith(".")}


def test_everything_is_bounded() -> None:
    """The API server refuses rules whose cost has no bound."""
    bounds = {
        "array": {"maxItems"},
        "integer": {"maximum"},
        "string": {"maxLength", "enum", "format"},
    }
    unbounded = {
        path
        for path, node in OURS.items()
        if node["type"] in bounds and not bounds[node["type"]] & node.keys()
    }
    assert unbounded == {".status.training.members[].exitCode"}


def test_rules_blame_fields_that_exist() -> None:
    blamed = {
        path + rule.get("fieldPath", "")
        for path, node in ALL.items()
        for rule in node.get("x-kubernetes-validations", ())
    }
    assert blamed <= ALL.keys()


def test_the_api_server_fills_nothing_into_the_status() -> None:
    statuses = {path: node for path, node in ALL.items() if path.startswith(".status")}
    assert not {path for path, node in statuses.items() if "default" in node}


def test_the_api_server_fills_in_only_what_the_operator_of_0_1_0_knows() -> None:
    """An operator of 0.1.0 ends jobs with other fields; mark new ones `DefaultWhenRead`."""
    filled = {path for path, node in ALL.items() if "default" in node}
    assert filled == {f".spec.{path}" for path in FILLED}
    expanded = {
        f"{path}.{name}"
        for path, node in ALL.items()
        if isinstance(node.get("default"), dict)
        for name in node["default"]
    }
    assert expanded <= filled


def test_columns_show_fields_that_exist() -> None:
    shown = {column["jsonPath"] for column in COLUMNS} - {".metadata.creationTimestamp"}
    assert shown <= ALL.keys()


def test_whole_numbers_are_written_as_the_api_server_writes_them() -> None:
    """It stores 1.0 as 1; a manifest with 1.0 then differs from what is stored."""
    assert [number for number in numbers(definition()) if number.is_integer()] == []


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from numbers(item)
    if isinstance(value, float):
        yield value


def test_kubectl_can_apply_the_definition() -> None:
    assert len(str(definition())) < APPLY_LIMIT


class Part(Model):
    """A part."""

    size: int = 3
    """How big."""


class Choice(OneOf):
    """One of two."""

    this: Part | None = None
    """This."""

    other_one: Part | None = None
    """That."""


class Whole(Model):
    """A model with one field of each kind."""

    name: Annotated[str, MaxLen(5), Field(pattern="^a")]
    """Its name."""

    ratio: Annotated[float, Gt(0), Unit("metres")] | None = None
    """Its
    ratio."""

    parts: Annotated[tuple[Part, ...], MaxLen(2)] = ()
    """Its parts."""

    free_form: dict[str, Any] | None = None
    """Anything."""

    by_name: Annotated[dict[str, Part], MaxLen(4)] = Field(default_factory=dict)
    """Parts by name."""

    part: Part = Part()
    """Its part."""

    rules = (Rule("self.ratio != 1.0", "not one", "ratio"),)


PART = {
    "type": "object",
    "properties": {
        "size": {"description": "How big.", "type": "integer", "format": "int64", "default": 3}
    },
}


def test_a_model_becomes_a_schema() -> None:
    assert schema.of_model(Whole, has_descriptions=True) == {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"description": "Its name.", "type": "string", "maxLength": 5, "pattern": "^a"},
            "ratio": {
                "description": "Its ratio. Unit: metres.",
                "type": "number",
                "minimum": 0,
                "exclusiveMinimum": True,
            },
            "parts": {
                "description": "Its parts.",
                "type": "array",
                "items": PART,
                "maxItems": 2,
                "x-kubernetes-list-type": "atomic",
                "default": [],
            },
            "freeForm": {
                "description": "Anything.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
            },
            "byName": {
                "description": "Parts by name.",
                "type": "object",
                "additionalProperties": PART,
                "maxProperties": 4,
                "default": {},
            },
            "part": {"description": "Its part.", **PART, "default": {"size": 3}},
        },
        "x-kubernetes-validations": [
            {"rule": "self.ratio != 1.0", "message": "not one", "fieldPath": ".ratio"}
        ],
    }


def test_a_union_brings_its_rule() -> None:
    (rule,) = schema.of_model(Choice)["x-kubernetes-validations"]
    assert rule["rule"] == "[has(self.this), has(self.otherOne)].exists_one(given, given)"
    assert_says(rule["message"], "exactly one", "this, otherOne")


def test_a_type_without_a_schema_is_an_error() -> None:
    class Odd(Model):
        """Odd."""

        value: complex
        """A complex number."""

    with pytest.raises(TypeError, match="complex"):
        schema.of_model(Odd)
