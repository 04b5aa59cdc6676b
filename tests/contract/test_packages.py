"""Operator and workloads share the specification alone, and their scripts exist."""

import ast
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import pytest

from imagenet_operator.manifests import preview
from imagenet_operator.manifests.settings import DEFAULTS
from imagenet_spec.resource.training import TrainingSpec
from support.job_table import JOBS
from support.pod_subset import REPOSITORY, console_scripts

PACKAGES = {
    "imagenet_operator": REPOSITORY / "operator" / "imagenet_operator",
    "imagenet_workloads": REPOSITORY / "workloads" / "imagenet_workloads",
}


def imported(file: Path) -> set[str]:
    """Return the top packages that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize(
    ("package", "other"),
    [
        ("imagenet_operator", "imagenet_workloads"),
        ("imagenet_workloads", "imagenet_operator"),
    ],
)
def test_the_packages_do_not_import_each_other(package: str, other: str) -> None:
    files = list(PACKAGES[package].rglob("*.py"))
    assert files
    assert [file for file in files if other in imported(file)] == []


def test_the_operator_imports_nothing_that_only_a_workload_has() -> None:
    heavy = {"mxnet", "numpy", "cv2", "simplejpeg", "matplotlib"}
    files = PACKAGES["imagenet_operator"].rglob("*.py")
    assert [file for file in files if imported(file) & heavy] == []


def test_builders_know_no_client_clock_or_logger() -> None:
    impure = {"datetime", "logging", "os", "random", "socket", "subprocess", "time", "uuid"}
    files = (PACKAGES["imagenet_operator"] / "manifests").rglob("*.py")
    assert [file for file in files if imported(file) & impure] == []


def test_the_default_images_are_those_of_this_version() -> None:
    of_training = [
        image for images in DEFAULTS.images.values() for image in (images.cpu, images.gpu)
    ]
    for image in (DEFAULTS.preparation_image, *of_training):
        assert image.endswith(f":{version('imagenet-workloads')}")


def test_every_framework_has_images() -> None:
    framework = TrainingSpec.model_fields["framework"].annotation
    assert set(DEFAULTS.images) == set(get_args(framework))


@pytest.mark.parametrize("name", JOBS)
def test_every_command_is_a_console_script(name: str) -> None:
    built = preview.everything(JOBS[name], status=JOBS[name].status.dataset)
    templates = [item["spec"]["template"] for item in built if item["kind"] == "Job"]
    for pod in [*templates, *(item for item in built if item["kind"] == "Pod")]:
        (command,) = pod["spec"]["containers"][0]["command"]
        assert command in console_scripts()


@pytest.mark.parametrize("script", sorted(console_scripts()))
def test_every_console_script_has_its_module(script: str) -> None:
    module, _, function = console_scripts()[script].partition(":")
    assert callable(getattr(import_module(module), function))
    assert import_module(module).build_parser().prog == script
