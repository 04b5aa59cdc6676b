"""The chart's values: each is explained, and none that is misspelt goes unnoticed."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from imagenet_operator.manifests import rendezvous
from support import chart

SCHEMA = json.loads((chart.FOLDER / "values.schema.json").read_text())
TEXT = (chart.FOLDER / "values.yaml").read_text()
VALUES = yaml.safe_load(TEXT)
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)

Path = tuple[str, ...]

# Values whose parts are Kubernetes' own and need no word of ours.
WHOLE = {("operator", "resources")}


def _node(schema: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference to the schema's definitions."""
    if "$ref" not in schema:
        return schema
    node: dict[str, Any] = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    return node


def _objects(schema: dict[str, Any], path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield every object that has fields, with its path."""
    node = _node(schema)
    if "properties" in node:
        yield path, node
    for name, child in node.get("properties", {}).items():
        yield from _objects(child, (*path, name))
    if "items" in node:
        yield from _objects(node["items"], (*path, "[]"))


OBJECTS = dict(_objects(SCHEMA))
PLACES = [path for path in OBJECTS if "[]" not in path and (path == () or path[0] != "global")]


def _at(values: Any, path: Path) -> Any:
    for name in path:
        values = values[name]
    return values


def _leaves(path: Path = ()) -> Iterator[Path]:
    """Yield the place of every value that a person may set."""
    for name in _at(VALUES, path):
        place = (*path, name)
        if place in OBJECTS and place not in WHOLE:
            yield from _leaves(place)
        else:
            yield place


def _explained() -> set[Path]:
    """Return the place of every key in values.yaml that has a comment above it."""
    found, open_keys, above = set(), list[tuple[int, str]](), False
    for line in TEXT.splitlines():
        key = re.match(r"( *)([A-Za-z]+):", line)
        if key is None:
            above = line.lstrip().startswith("#")
            continue
        indent = len(key[1])
        open_keys = [*(item for item in open_keys if item[0] < indent), (indent, key[2])]
        if above:
            found.add(tuple(name for _, name in open_keys))
        above = False
    return found


def test_the_schema_is_one() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_the_defaults_are_valid() -> None:
    assert [error.message for error in VALIDATOR.iter_errors(VALUES)] == []


@pytest.mark.parametrize("path", OBJECTS, ids=".".join)
def test_no_object_takes_other_fields_than_its_own(path: Path) -> None:
    assert OBJECTS[path]["additionalProperties"] is False


@pytest.mark.parametrize("path", PLACES, ids=".".join)
def test_a_value_that_does_not_exist_is_refused(path: Path) -> None:
    values = copy.deepcopy(VALUES)
    _at(values, path)["enabledd"] = True
    (error,) = VALIDATOR.iter_errors(values)
    assert "'enabledd' was unexpected" in error.message


@pytest.mark.parametrize("path", PLACES, ids=".".join)
def test_the_schema_and_the_file_have_the_same_values(path: Path) -> None:
    assert set(_at(VALUES, path)) == set(OBJECTS[path]["properties"])


def _needed(path: Path) -> bool:
    """Whether a value is required: it has a default, and may not be empty."""
    value = _at(VALUES, path)
    if isinstance(value, dict):
        return path in OBJECTS and path not in WHOLE
    return value not in (None, "", [])


@pytest.mark.parametrize("path", [path for path in PLACES if path not in WHOLE], ids=".".join)
def test_a_value_that_is_needed_cannot_be_taken_away(path: Path) -> None:
    """Helm does so for null, which a template would render as 0 or nothing."""
    needed = {name for name in _at(VALUES, path) if _needed((*path, name))}
    assert set(OBJECTS[path].get("required", ())) == needed


@pytest.mark.parametrize("path", list(_leaves()), ids=".".join)
def test_a_value_is_explained(path: Path) -> None:
    assert path in _explained()


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("operator", "user"), 0),
        (("operator", "image", "pullPolicy"), "Sometimes"),
        (("pods", "user"), "root"),
        (("pods", "gpuResource"), "gpu"),
        (("pods", "metricsPort"), 70000),
        (("pods", "metricsPort"), rendezvous.RENDEZVOUS_PORT),
        (("pods", "metricsPort"), rendezvous.MEMBER_PORT),
        (("pods", "networkPolicy", "metricsFrom"), [{"podSelektor": {}}]),
        (("pods", "safeToEvict"), "yes"),
        (("pods", "sharedMemorySize"), "0"),
        (("pods", "scratchSize"), "500m"),
        (("templates", "profile"), "lax"),
        (("registry",), "https://registry.example/ team"),
        (("restarts", "disruptionLimit"), -1),
        (("sampler", "intervalSeconds"), 0),
        (("watchNamespaces",), ["Vision"]),
        (("leaseNamespace",), "Kube-System"),
        (("monitoring", "podMonitor", "interval"), "often"),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else "",
)
def test_a_value_that_cannot_be_meant_is_refused(path: Path, wrong: object) -> None:
    values = copy.deepcopy(VALUES)
    _at(values, path[:-1])[path[-1]] = wrong
    assert not VALIDATOR.is_valid(values)


def test_metrics_are_kept_off_the_members_own_ports_and_no_others() -> None:
    port = OBJECTS["pods",]["properties"]["metricsPort"]
    assert port["not"] == {"enum": [rendezvous.RENDEZVOUS_PORT, rendezvous.MEMBER_PORT]}


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"operator": {"replicas": 0}}, "replicas"),
        ({"pods": {"metricsPort": rendezvous.RENDEZVOUS_PORT}}, "metricsPort"),
        ({"pods": {"metricsPort": rendezvous.MEMBER_PORT}}, "metricsPort"),
        ({"restarts": {"disruptionLimit": None}}, "disruptionLimit"),
        ({"pods": {"images": {"tensorflow": None}}}, "tensorflow"),
    ],
    ids=str,
)
def test_helm_itself_refuses_by_the_schema(values: dict[str, Any], place: str) -> None:
    done = chart.run(values)
    assert done.returncode != 0
    assert place in done.stderr
