"""What --strategies can say, and the manifest that each becomes."""

from typing import Any

import pytest

from imagenet_operator.scaling import variants
from imagenet_operator.scaling.variants import UnknownVariant, Variant
from imagenet_spec.resource.compatibility import COMBINATIONS
from imagenet_spec.validate import parse, validate
from support import job_table
from support.sentences import says

SERVERS: dict[str, Any] = {"kvStore": "dist_sync", "servers": {"replicas": 2}}


def swapped(text: str, **training: Any) -> dict[str, Any]:
    """The training of a job after the swap."""
    manifest = job_table.manifest(training=training)
    found: dict[str, Any] = variants.applied(variants.read(text), manifest)["spec"]["training"]
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("single", Variant("single", "single")),
        ("parameterServer", Variant("parameterServer", "parameterServer")),
        (
            "parameterServer:dist_async",
            Variant("parameterServer:dist_async", "parameterServer", kv_store="dist_async"),
        ),
        ("single:MXNet", Variant("single:MXNet", "single", framework="MXNet")),
    ],
)
def test_an_item_names_a_strategy_and_one_detail(text: str, expected: Variant) -> None:
    assert variants.read(text) == expected


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ["'' is not a strategy", "write one of parameterServer, single"]),
        ("dist_sync", ["'dist_sync' is not a strategy", "write one of parameterServer"]),
        ("single:dist_sync", ["write single", "single:MXNet, single:PyTorch, single:local"]),
        ("parameterServer:", ["write parameterServer", "one of parameterServer:MXNet"]),
    ],
)
def test_what_is_none_is_told_what_there_is(text: str, facts: list[str]) -> None:
    with pytest.raises(UnknownVariant, match=says(*facts)):
        variants.read(text)


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("parameterServer", "parameter-server"),
        ("parameterServer:dist_device_sync", "dist-device-sync"),
        ("single:MXNet", "single-mxnet"),
    ],
)
def test_a_slug_is_a_part_of_a_name(text: str, slug: str) -> None:
    assert variants.read(text).slug == slug


def test_the_manifests_own_strategy_is_the_default_and_changes_nothing() -> None:
    manifest = job_table.manifest()
    own = variants.own(manifest)
    assert own.label == "parameterServer"
    assert variants.applied(own, manifest) == manifest


def test_the_own_block_is_kept_and_another_starts_empty() -> None:
    assert swapped("parameterServer")["strategy"] == {"parameterServer": SERVERS}
    assert swapped("single")["strategy"] == {"single": {}}
    asynchronous = swapped("parameterServer:dist_async")["strategy"]
    assert asynchronous == {"parameterServer": {**SERVERS, "kvStore": "dist_async"}}


def test_a_swap_leaves_the_manifest_as_it_was() -> None:
    manifest = job_table.manifest()
    variants.applied(variants.read("parameterServer:dist_async"), manifest)
    variants.applied(variants.read("single"), manifest)
    assert manifest == job_table.manifest()


@pytest.mark.parametrize(
    "text", sorted({f"{row.strategy}:{row.framework}" for row in COMBINATIONS})
)
def test_every_strategy_of_every_framework_is_a_job_that_would_run(text: str) -> None:
    manifest = job_table.manifest(
        training={"workers": {"replicas": 1}, "model": {"network": "resnet", "numLayers": 50}}
    )
    there = variants.applied(variants.read(text), manifest)
    assert validate(there) == []
    training = parse(there).spec.training
    assert (training.strategy.kind, training.framework) == tuple(text.split(":"))
    back = variants.applied(variants.read("parameterServer:MXNet"), there)
    assert validate(back) == [], "and so is the way back"
