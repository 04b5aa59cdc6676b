"""What a program imports before it does anything: each process of each pod pays for it."""

import json
import subprocess
import sys
import tomllib

import pytest

from support.chart import REPOSITORY

HELP = """
import contextlib, importlib, json, os, sys
before = set(sys.modules)
module, function = sys.argv[1].split(":")
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(open(os.devnull, "w")):
    getattr(importlib.import_module(module), function)(["--help"])
print(json.dumps(sorted(set(sys.modules) - before)))
"""
PROJECTS = [
    tomllib.loads((REPOSITORY / part / "pyproject.toml").read_text())["project"]
    for part in ("operator", "workloads")
]
OF_OPERATOR, OF_PODS = (project["scripts"] for project in PROJECTS)
READS_ARCHIVES = {"google_crc32c", "numpy", "urllib3"}
OPEN_SOURCES = ("imagenet-fetch", "imagenet-index", "imagenet-inspect", "imagenet-pack")
LIBRARIES = dict.fromkeys(OPEN_SOURCES, READS_ARCHIVES)
"""Program of a pod → the libraries that its `--help` loads, for the few that load any."""


def loaded(place: str) -> set[str]:
    """Return the modules that the help of a program loads, from MODULE:FUNCTION."""
    command = [sys.executable, "-c", HELP, place]
    ended = subprocess.run(command, capture_output=True, check=True, text=True)
    return set(json.loads(ended.stdout))


@pytest.mark.parametrize("program", OF_PODS)
def test_a_pods_program_loads_no_library_that_its_help_can_do_without(program: str) -> None:
    packages = {name.partition(".")[0] for name in loaded(OF_PODS[program])}
    ours = {"imagenet_spec", "imagenet_workloads"}
    assert packages - sys.stdlib_module_names - ours == LIBRARIES.get(program, set())


@pytest.mark.parametrize(
    ("program", "others"),
    [
        # The kubernetes package's models of all kinds take 40 MiB.
        ("imagenet-operator", {"kubernetes.client.models.v1_pod", "rich"}),
        ("imagenetctl", {"aiohttp", "kopf", "kubernetes"}),
    ],
)
def test_a_program_of_the_operators_package_loads_nothing_of_others(
    program: str, others: set[str]
) -> None:
    found = loaded(OF_OPERATOR[program])
    assert OF_OPERATOR[program].partition(":")[0] in found
    assert found & (others | {"imagenet_workloads", "matplotlib", "numpy"}) == set()
