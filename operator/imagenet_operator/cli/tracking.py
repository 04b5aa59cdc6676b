"""`imagenetctl tracking sync` and `imagenetctl tensorboard`, for tracked jobs.

The side process of a job sends its events while it trains. `sync` starts the same program again,
which sends what a server lacks. TensorBoard also shows jobs of a cluster: their event files are
brought to this machine again and again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from imagenet_operator.cli import exit_codes, local_resources, places, programs
from imagenet_operator.cli.arguments import (
    Command,
    add_workdir,
    not_empty,
    path,
    whole,
)
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments
from imagenet_operator.manifests import names, worker
from imagenet_operator.sdk.background import run
from imagenet_spec import stored
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.names import (
    IMAGENET_JOB,
    IMAGENET_JOB_UID,
    IMAGENET_NAMESPACE,
    IMAGENET_RESULTS,
    IMAGENET_TRACKING_CREDENTIALS,
    TENSORBOARD_FOLDER,
    TRACK_PROGRAM,
)
from imagenet_spec.resource import ImageNetJob

_SYNC = """examples:
  imagenetctl tracking sync digits --secret mlflow=FOLDER
                                     send to MLflow what its run of the job lacks
"""

_TENSORBOARD = """examples:
  imagenetctl tensorboard            every job in ./imagenet-work
  imagenetctl tensorboard digits     one of them
  imagenetctl tensorboard digits -n NAMESPACE
                                     a job of a cluster
"""

_SYNC_SECONDS: Final = 60.0
"""The time between two looks for more on a cluster, each of which takes a pod."""


def add_tracking(command: Command) -> None:
    """Declare `imagenetctl tracking COMMAND …`."""
    parser = command.declare(
        _sync,
        summary="send to MLflow what a job could not",
        description="Look after what a job's tracking has sent.",
        examples=_SYNC,
    )
    subcommands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    what = "write TensorBoard's files and send to MLflow what they lack"
    sync = subcommands.add_parser("sync", help=what, description=f"Read a job's logs, {what}.")
    sync.add_argument("name", type=not_empty, metavar="NAME", help="the job in the directory")
    sync.add_argument(
        "--secret",
        type=local_resources.mapping,
        metavar="NAME=FOLDER",
        help="the Secret of uriFrom and its folder here, with a file for each key",
    )
    sync.add_argument(
        "--folder",
        type=path,
        metavar="FOLDER",
        help="the job's output folder, if its volume is not in the working directory",
    )
    add_workdir(sync, "where to find the job")


def _sync(arguments: argparse.Namespace) -> int:
    job = _job(arguments.name, arguments.workdir)
    tracking = job.spec.training.tracking
    if tracking is None:
        raise ImageNetJobError(f"the job {arguments.name!r} has no spec.training.tracking")
    variables = {
        **os.environ,
        IMAGENET_JOB: job.metadata.name,
        IMAGENET_NAMESPACE: job.metadata.namespace,
        IMAGENET_JOB_UID: job.metadata.uid,
        IMAGENET_RESULTS: str(arguments.folder or _results(job, arguments.workdir)),
    }
    if tracking.secret is not None:
        name, folder = arguments.secret or ("", None)
        if name != tracking.secret:
            raise ImageNetJobError(
                f"the job reads the Secret {tracking.secret!r}; name its folder with --secret "
                f"{tracking.secret}=FOLDER"
            )
        variables[IMAGENET_TRACKING_CREDENTIALS] = str(folder)
    options = [*worker.tracking_arguments(job), "--once"]
    return programs.start(TRACK_PROGRAM, options, variables=variables)


def _job(name: str, workdir: Path) -> ImageNetJob:
    file = workdir / "jobs" / name / "job.json"
    try:
        return stored.read(json.loads(file.read_text(encoding="utf-8"))["job"]).job
    except FileNotFoundError:
        raise LocalError(
            f"{workdir} has no job {name!r}; name another working directory with --workdir. For a "
            f"job on a cluster, run {TRACK_PROGRAM} --once in a pod that mounts its output volume, "
            "as docs/tracking.md shows"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LocalError(f"cannot read {file}: {error}") from error


def _results(job: ImageNetJob, workdir: Path) -> Path:
    folder = names.output_folder(job.metadata.name, job.metadata.uid)
    found = next(workdir.glob(f"volumes/*/{folder}"), None)
    if found is None:
        raise LocalError(
            f"{workdir}/volumes has no {folder}: the job has not trained, or its volume is "
            "elsewhere; name the folder with --folder"
        )
    return found


def add_tensorboard(command: Command) -> None:
    """Declare `imagenetctl tensorboard [NAME…]`."""
    parser = command.declare(
        _tensorboard,
        summary="show tracked jobs with TensorBoard",
        description="Start the installed TensorBoard with the jobs of a working directory, or with "
        "named jobs of a cluster, whose files are brought again each minute.",
        examples=_TENSORBOARD,
    )
    parser.add_argument(
        "names",
        type=not_empty,
        nargs="*",
        metavar="NAME",
        help="a job (default: all that have files)",
    )
    parser.add_argument(
        "--port", type=whole(0), metavar="N", help="where it listens (default: TensorBoard's)"
    )
    places.add_image(parser)
    places.add_options(parser)


def _tensorboard(arguments: argparse.Namespace) -> int:
    if not places.is_local(arguments):
        return _of_cluster(arguments)
    workdir = places.workdir_of(arguments)
    # Of each job, the newest folder. A part of the UID follows the name.
    found = sorted(
        workdir.glob(f"volumes/*/jobs/*/{TENSORBOARD_FOLDER}"),
        key=lambda folder: folder.stat().st_mtime_ns,
    )
    folders = {folder.parent.name.rpartition("-")[0]: folder.resolve() for folder in found}
    missing = [name for name in arguments.names if name not in folders]
    if missing or not folders:
        what = f"the job {missing[0]!r}" if missing else "no job"
        has = "has no files" if missing else "has files"
        raise LocalError(
            f"{what} in {workdir} {has} for TensorBoard; a job writes them with "
            "spec.training.tracking: {tensorBoard: {}}"
        )
    shown = {name: folders[name] for name in arguments.names or sorted(folders)}
    code = subprocess.run(_command(arguments, shown), check=False).returncode
    return exit_codes.SUCCESS if code == 0 else exit_codes.FAILED


def _command(arguments: argparse.Namespace, shown: Mapping[str, Path]) -> list[str]:
    program = environments.find_program("tensorboard", environments.program_folders(os.environ))
    if program is None:
        raise LocalError("TensorBoard is not installed; type: pip install tensorboard")
    folders = ",".join(f"{name}:{folder}" for name, folder in shown.items())
    port = [] if arguments.port is None else ["--port", str(arguments.port)]
    return [str(program), "--logdir_spec", folders, *port]


def _of_cluster(arguments: argparse.Namespace) -> int:
    if not arguments.names:
        raise ImageNetJobError("name the jobs of the cluster: imagenetctl tensorboard NAME")
    # Imported here: the API client takes half a second.
    from imagenet_operator.sdk.cluster import AsyncClient

    with places.opened(arguments) as client, TemporaryDirectory() as temporary:
        jobs = client.jobs
        assert isinstance(jobs, AsyncClient)
        # A path of its own for each, which neither has a comma nor a colon.
        folders = {name: Path(temporary, "shown", name) for name in arguments.names}
        command = _command(arguments, folders)

        async def bring(name: str) -> bool:
            received = Path(temporary, "received", name)
            return await jobs.event_files(
                name, received, folders[name], image=arguments.image, say=_say
            )

        return run(_show(command, bring, arguments.names))


async def _show(
    command: Sequence[str], bring: Callable[[str], Awaitable[bool]], names: Sequence[str]
) -> int:
    """Run TensorBoard, and meanwhile bring the files of jobs that have not ended."""
    going_on = [name for name in names if not await bring(name)]
    program = await asyncio.create_subprocess_exec(*command)
    try:
        while program.returncode is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(program.wait(), _SYNC_SECONDS if going_on else None)
                break
            for name in tuple(going_on):
                try:
                    if await bring(name):
                        going_on.remove(name)
                except ImageNetJobError as error:
                    _say(f"imagenetctl: warning: {name}: {error}")
    finally:
        if program.returncode is None:
            program.terminate()
            await program.wait()
    return exit_codes.SUCCESS if program.returncode == 0 else exit_codes.FAILED


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
