"""What the pods of a job run: their programs, and the arguments as the kubelet hands them over."""

import argparse
import json
from importlib import import_module
from typing import Any

from imagenet_operator.manifests import preview
from imagenet_spec.names import IMAGENET_TRACKING, TRACK_PROGRAM
from imagenet_spec.resource import ImageNetJob
from support.job_table import KEY
from support.pod_subset import REFERENCE, REPOSITORY, console_scripts

Manifest = dict[str, Any]

SLOTS = "imagenet-slots"
OWN_PROGRAMS = {"own-command", "own-image"}
"""Published manifests whose workers run a user's own program."""

GOOD = [
    *sorted((REPOSITORY / "examples").glob("*.yaml")),
    *sorted((REPOSITORY / "tests" / "corpus" / "good").glob("*.yaml")),
]


def pods(job: ImageNetJob) -> list[Manifest]:
    """Return the specs of all pods that a job makes."""
    built = preview.everything(
        job, status=job.status.dataset or preview.placeholder_status(job, KEY)
    )
    templates = [item["spec"]["template"] for item in built if item["kind"] == "Job"]
    return [pod["spec"] for pod in [*templates, *(i for i in built if i["kind"] == "Pod")]]


def parser_of(script: str) -> argparse.ArgumentParser:
    module, _, _ = console_scripts()[script].partition(":")
    parser: argparse.ArgumentParser = import_module(module).build_parser()
    return parser


def expanded(container: Manifest) -> list[str]:
    """Return a container's arguments as the kubelet would hand them over."""
    variables = {item["name"]: item.get("value", "10.0.0.1") for item in container["env"]}
    return [
        REFERENCE.sub(lambda match: variables[match[1]], argument) for argument in container["args"]
    ]


Line = tuple[str, list[str]]
"""A console script and its arguments."""


def lines(container: Manifest) -> list[Line]:
    """Return what a container runs: its program, and what that in turn runs."""
    (script,) = container["command"]
    own = (script, expanded(container))
    beside = [
        (TRACK_PROGRAM, json.loads(item["value"]))
        for item in container["env"]
        if item["name"] == IMAGENET_TRACKING
    ]
    if script != SLOTS:
        return [*beside, own]
    inner, *arguments = parser_of(script).parse_args(own[1]).command
    return [*beside, own, (inner, arguments)]


def parse(line: Line) -> argparse.Namespace:
    """Parse a program's arguments; a parser that refuses them fails the test with its message."""
    return parser_of(line[0]).parse_args(line[1])


def is_ours(container: Manifest) -> bool:
    """Whether a container runs a program of the workloads, and not a user's own."""
    return container["command"][0] in console_scripts()
