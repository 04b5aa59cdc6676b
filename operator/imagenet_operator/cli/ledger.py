"""`imagenetctl ledger NAME`: checks that a job trained every record once an epoch.

Runs `imagenet-ledger`, a program of the workloads, on the job's output folder: one of a working
directory, or one of a volume that is mounted here.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.argument_types import not_empty, path
from imagenet_operator.cli.local_resources import DEFAULT_WORKDIR
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments
from imagenet_operator.manifests import names
from imagenet_spec.names import ATTEMPTS_FOLDER, EVERY_ATTEMPT, RESULT_FILE

PROGRAM = "imagenet-ledger"

_EXAMPLES = """examples:
  imagenetctl ledger digits                         the newest job of that name in ./imagenet-work
  imagenetctl ledger /mnt/output/jobs/digits-1f0c8a11 --dataset /mnt/data/datasets/KEY
                                                    a folder of a mounted volume
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "ledger",
        help="check that a job trained every record once an epoch",
        description="Check that every record of each epoch was trained once, over all attempts.",
        epilog=f"{_EXAMPLES}\n{exit_codes.HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "job", type=not_empty, metavar="NAME", help="a job's name, or its output folder"
    )
    parser.add_argument(
        "--dataset",
        type=path,
        metavar="FOLDER",
        help="the sealed dataset (default: that of the job, if it is in the working directory)",
    )
    parser.add_argument(
        "--workdir",
        type=path,
        default=DEFAULT_WORKDIR,
        metavar="DIR",
        help=f"where to find the job (default: ./{DEFAULT_WORKDIR})",
    )
    parser.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="text, or a JSON object for scripts (default: text)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check; return the exit code."""
    folder = find_output(arguments.job, arguments.workdir)
    program = environments.programs().find(PROGRAM, trains=False)
    command = [str(program), str(folder), "--output", arguments.output]
    dataset = arguments.dataset or _dataset(folder, arguments.workdir)
    if dataset is not None:
        command += ["--dataset", str(dataset)]
    code = subprocess.run(command, check=False).returncode
    return code if code in (exit_codes.SUCCESS, exit_codes.USAGE) else exit_codes.FAILED


def find_output(job: str, workdir: Path) -> Path:
    """Return the output folder of a job: the folder itself, or the newest one of that name.

    Raises:
        LocalError: There is none.
    """
    if (Path(job) / ATTEMPTS_FOLDER).is_dir():
        return Path(job)
    # A UID's first 8 digits follow the name.
    found = list(workdir.glob(f"volumes/*/{names.output_folder(job, '?' * 8)}/{ATTEMPTS_FOLDER}"))
    if not found:
        raise LocalError(
            f"no job {job!r} has trained in {workdir}; name another working directory with "
            "--workdir, or the job's folder on a mounted volume"
        )
    return max(found, key=lambda attempts: attempts.stat().st_mtime_ns).parent


def _dataset(output: Path, workdir: Path) -> Path | None:
    """Return the sealed dataset that a job's result names, if it is in the working directory."""
    for result in sorted(output.glob(f"{EVERY_ATTEMPT}/{RESULT_FILE}")):
        key = json.loads(result.read_bytes()).get("dataset", {}).get("key")
        if key is not None:
            found = workdir.glob(f"volumes/*/{names.dataset_folder(key)}/dataset.json")
            return next((file.parent for file in found), None)
    return None
