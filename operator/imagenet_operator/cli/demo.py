"""`imagenetctl demo`: trains handwritten digits, from a raw archive to a model and its plot.

`make demo` in a checkout. The archive comes from imagenet-digits, the manifest from this package:
that of the first framework that is installed. A second run trains again and reuses the dataset.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import subprocess
from importlib import resources
from pathlib import Path

from imagenet_operator.cli import exit_codes, local_resources, overrides, programs
from imagenet_operator.cli import run as runs
from imagenet_operator.cli.arguments import Command, add_output, add_workdir
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments, frameworks
from imagenet_spec import load
from imagenet_spec.names import MODEL_LINK, PLOT_FILE, RESULT_FILE, TRAIN_PROGRAM
from imagenet_spec.validate import parse

MANIFESTS = ("digits.yaml", "digits-pytorch.yaml")
"""The manifests beside this module, copies of those in examples/, one for each framework."""

_EXAMPLES = """examples:
  imagenetctl demo                   below ./imagenet-work
  imagenetctl demo --set spec.training.epochs=20
  imagenetctl demo --metrics-port 19090
                                     if another program uses port 9090
"""


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        run,
        summary="train handwritten digits on this machine, in less than a minute",
        description="Train handwritten digits on this machine: the archive, the dataset, the model "
        "and a plot.",
        examples=_EXAMPLES,
    )
    add_workdir(parser, "folder of data, results and logs")
    overrides.add_option(parser)
    local_resources.add_metrics_port(parser)
    add_output(parser, "one JSON object a line")
    parser.set_defaults(volume=[], secret=[], gpus=None)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; return the exit code."""
    name = choose()
    workdir = local_resources.resolved(arguments.workdir)
    archive, sample = workdir / "volumes" / "raw" / "digits.tar", workdir / "sample.jpg"
    manifest = workdir / name
    is_text = arguments.output == "text"
    if not (archive.is_file() and sample.is_file()):
        if is_text:
            print(f"\n$ imagenet-digits {_typed(archive)} --sample {_typed(sample)}", flush=True)
        output = None if is_text else subprocess.DEVNULL
        options = [str(archive), "--sample", str(sample)]
        code = programs.start("imagenet-digits", options, output=output)
        if code != exit_codes.SUCCESS:
            return code
    if not manifest.is_file():
        try:
            manifest.write_text(_text(name), encoding="utf-8")
        except OSError as error:
            raise LocalError(f"cannot write {manifest}: {error.strerror}") from error
    if is_text:
        print(f"\n$ imagenetctl run {_typed(manifest)} --workdir {_typed(workdir)}", flush=True)
    # With more threads than work, a very small network is slower.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    arguments.file = str(manifest)
    code = runs.run(arguments)
    if code == exit_codes.SUCCESS and is_text:
        job = runs.read(arguments.file, arguments.overrides).metadata.name
        _print_end(workdir, job, sample)
    return code


def choose() -> str:
    """Return the manifest of the first framework that is installed.

    Raises:
        LocalError: None is installed; the message has a command for each.
    """
    known = {
        name: parse(load.parse(_text(name), name)[0]).spec.training.framework for name in MANIFESTS
    }
    for name, framework in known.items():
        if environments.has_framework(framework):
            return name
    environments.programs().find(TRAIN_PROGRAM, trains=True)
    commands = [
        f"  {framework}: {frameworks.how_to_install(framework) or 'make install'}"
        for framework in known.values()
    ]
    raise LocalError("\n".join(["no framework is installed; type the line of one:", *commands]))


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _print_end(workdir: Path, name: str, sample: Path) -> None:
    model = (workdir / "jobs" / name / MODEL_LINK).resolve()
    # The job's folder, above its attempts, so that the plot shows restarts too.
    job = model.parent.parent
    picture = model / PLOT_FILE
    plot = _typed(picture)
    # `run` has drawn it, unless something is missing.
    if not picture.is_file() and (reason := programs.draw(job)) is not None:
        plot = f"not drawn: {reason.removeprefix('imagenet-plot: error: ')}"
        if importlib.util.find_spec("matplotlib") is None:
            plot += f" && {frameworks.program('imagenet-plot')} {_typed(job)}"
    validation = json.loads((model / RESULT_FILE).read_text())["validation"]
    command = frameworks.program("imagenetctl")
    print(
        f"\nvalidation top-1  {validation['top1']:.4f} on {validation['images']} images"
        f"\nmodel             {_typed(model)}"
        f"\nplot              {plot}"
        f"\n\nLook at the job:\n\n  {command} status {name} --workdir {_typed(workdir)}"
        f"\n\nNow classify a digit:\n\n  {command} predict {_typed(sample)} --model {_typed(model)}"
    )


def _typed(path: Path) -> str:
    """Return a path as short as it can be typed from here."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
