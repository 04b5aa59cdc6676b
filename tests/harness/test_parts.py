"""When a part of a cluster without a registry is made again."""

from __future__ import annotations

from typing import Any

import pytest

from kind.airgap.parts import (
    AIRGAP,
    MODULE_PROGRAMS,
    Part,
    keys_of,
    parts_of,
    read_versions,
    with_needs,
)

MACHINE = {"CERTIFICATES": b"authorities", "PIP_CONFIGURATION": b"[global]"}
EVERYTHING = tuple(parts_of(read_versions()))
# What is compiled in one module, and what is made from that.
OF_ONE_MODULE = {"modules", *MODULE_PROGRAMS, "kubectl", "node"}


def keys(
    versions: dict[str, Any] | None = None,
    files: dict[str, bytes] | None = None,
    machine: dict[str, bytes] | None = None,
    architecture: str = "x86_64",
) -> dict[str, str]:
    """The keys of all parts, with some of their inputs changed."""
    ordered = with_needs(EVERYTHING, parts_of(versions or read_versions()))
    changed = files or {}

    def read(path: str) -> bytes:
        return changed.get(path) or (AIRGAP / path).read_bytes()

    return keys_of(ordered, read, {**MACHINE, **(machine or {})}, architecture)


def changed(**inputs: Any) -> set[str]:
    """The parts that are made again when an input changes."""
    before = keys()
    return {name for name, key in keys(**inputs).items() if key != before[name]}


def with_version(*path: str) -> dict[str, Any]:
    versions = read_versions()
    table = versions
    for name in path[:-1]:
        table = table[name]
    table[path[-1]] += "-other"
    return versions


def test_keys_are_the_same_every_time() -> None:
    assert keys() == keys()
    assert len(set(keys().values())) == len(EVERYTHING)


@pytest.mark.parametrize(
    ("path", "made_again"),
    [
        (("kubernetes", "version"), OF_ONE_MODULE),
        (("etcd", "version"), OF_ONE_MODULE),
        (("helm", "version"), OF_ONE_MODULE),
        (("debian", "release"), {"debian", "python", "node"}),
        (("programs", "kind", "version"), {"kind", "node"}),
        (("programs", "kwok", "version"), {"kwok"}),
        (("prometheus-operator", "version"), {"prometheus-operator"}),
        (("controllers", "kueue", "version"), {"kueue"}),
    ],
)
def test_a_version_changes_what_is_made_from_it(
    path: tuple[str, ...], made_again: set[str]
) -> None:
    assert changed(versions=with_version(*path)) == made_again


@pytest.mark.parametrize(
    ("file", "made_again"),
    [
        ("recipes/node.sh", {"node"}),
        ("recipes/debian.sh", {"debian", "python", "node"}),
        ("node/Dockerfile", {"node"}),
        ("node/default-storage.yaml", {"node"}),
        ("coredns.go", OF_ONE_MODULE),
        ("recipes/compile.sh", OF_ONE_MODULE - {"modules", "kubernetes", "kubectl"}),
        ("pause.go", {"pause", "node"}),
        ("python/Dockerfile", {"python"}),
    ],
)
def test_a_file_changes_what_is_made_from_it(file: str, made_again: set[str]) -> None:
    assert changed(files={file: b"other"}) == made_again


@pytest.mark.parametrize("name", MACHINE)
def test_the_machine_s_own_files_change_only_the_image_they_go_into(name: str) -> None:
    assert changed(machine={name: b"other"}) == {"python"}


def test_another_processor_changes_everything() -> None:
    assert changed(architecture="aarch64") == set(EVERYTHING)


def test_parts_come_after_what_they_are_made_from_and_once() -> None:
    ordered = [
        part.name for part in with_needs(("node", "python", "node"), parts_of(read_versions()))
    ]

    assert len(ordered) == len(set(ordered))
    assert ordered.index("debian") < ordered.index("python")
    assert ordered[-2:] == ["node", "python"]


def test_what_nothing_asks_for_is_not_built() -> None:
    ordered = with_needs(
        ("kind", "helm", "kubernetes", "python", "node"), parts_of(read_versions())
    )

    assert {"kwok", "kubectl"}.isdisjoint(part.name for part in ordered)


def test_every_file_of_the_folder_is_part_of_a_key() -> None:
    parts = parts_of(read_versions()).values()
    named = {path for part in parts for path in (f"recipes/{part.recipe}", *part.files)}
    for pattern in ("recipes/*", "node/*", "python/*", "*.go"):
        for file in AIRGAP.glob(pattern):
            assert str(file.relative_to(AIRGAP)) in named


@pytest.mark.parametrize(
    ("part", "variable"),
    [
        (Part("local-path-provisioner", "program.sh"), "LOCAL_PATH_PROVISIONER"),
        (Part("debian", "debian.sh", is_image=True), "DEBIAN_IMAGE"),
    ],
)
def test_recipes_find_parts_by_their_names(part: Part, variable: str) -> None:
    assert part.variable == variable


def test_recipes_use_only_variables_they_are_given() -> None:
    """A variable of this project's form that no one sets would be an error late in a long build."""
    parts = parts_of(read_versions())
    for part in parts.values():
        given = {
            *part.environment,
            *part.machine,
            *(parts[needed].variable for needed in part.needs),
        }
        script = (AIRGAP / "recipes" / part.recipe).read_text()
        for variable in {other.variable for other in parts.values()}:
            assert variable in given or f"${variable}" not in script.replace(f"${variable}_", ""), (
                f"{part.recipe}: ${variable}"
            )
