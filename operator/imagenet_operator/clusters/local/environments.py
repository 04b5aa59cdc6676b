"""The Python environments of pods' programs on this machine, one for each framework.

In a cluster, an image contains a framework. Here it is in a Python environment beside that of
imagenetctl (`.venv-tensorflow` beside `.venv`), because frameworks need different versions of the
same packages, and some another Python. Members of an attempt run in the environment of their
framework and strategy, and everything else runs in imagenetctl's. A user's own program replaces an
image that this machine does not have: its command is found on the PATH, as in a shell.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import frameworks
from imagenet_operator.manifests import labels
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.frameworks.descriptor import LocalEnvironment
from imagenet_spec.names import TRAIN_PROGRAM
from imagenet_spec.resource import ImageNetJob, Manifest
from imagenet_spec.resource.templates import own_program

_PROJECT = "imagenet-"
"""The first letters of this project's programs."""
_PYTHON = re.compile(r"-3\.\d+$")
"""The version of Python in the name of an environment."""


def of_job(job: ImageNetJob) -> LocalEnvironment | None:
    """Return the environment in which a job trains; None for imagenetctl's own."""
    training = job.spec.training
    return FRAMEWORKS[training.framework].local_environment(training.strategy.kind)


def of_framework(framework: str, strategy: str = "") -> LocalEnvironment | None:
    """Return the environment that loads a framework's models; None for imagenetctl's own.

    Both are as in result.json. Without a strategy, the environment only loads a model. An unknown
    framework is a LocalError.
    """
    if framework not in FRAMEWORKS:
        raise LocalError(f"framework {framework!r} is not known; known are {', '.join(FRAMEWORKS)}")
    known = FRAMEWORKS[framework]
    # A result.json has the value of an option, such as dist_sync.
    return known.local_environment(strategy) if strategy in known.strategies else known.environment


def command_of(job: ImageNetJob) -> str | None:
    """Return the command that a job's workers take from the PATH; None if there is none.

    The programs of this project, such as `imagenet-slots`, come from the job's environment.
    """
    command = own_program.command(job.spec.training)
    return None if command is None or command.startswith(_PROJECT) else command


def has_framework(framework: str) -> bool:
    """Return whether a framework is installed here, in its own environment or in imagenetctl's."""
    environment = FRAMEWORKS[framework].environment
    try:
        programs(environment).find(TRAIN_PROGRAM, trains=True)
    except LocalError:
        return False
    return environment is not None or frameworks.is_installed(framework)


def check_framework(job: ImageNetJob) -> None:
    """Raise LocalError if a job trains in imagenetctl's own environment, without its framework.

    The message has the command that installs it.
    """
    framework = job.spec.training.framework
    has_own = of_job(job) is not None or command_of(job) is not None
    if has_own or frameworks.is_installed(framework):
        return
    program = find_program(TRAIN_PROGRAM, program_folders(os.environ))
    if program is not None and program.parent == Path(sys.executable).parent:
        how = frameworks.how_to_install(framework) or "make install"
        raise LocalError(f"{framework} is not installed in {sys.prefix}; type: {how}")


def is_member(pod: Manifest) -> bool:
    """Whether a pod (or its template) trains, rather than prepares."""
    return labels.ATTEMPT in (pod.get("metadata", {}).get("labels") or {})


@dataclass(frozen=True)
class Programs:
    """Finds the programs of pods.

    Attributes:
        own: The folders of imagenetctl's own environment and of the PATH, in order.
        training: The environment of an attempt's members; None for the same.
        prefix: The folder of imagenetctl's own environment, beside which the others are.
        search_path: The folders of the PATH, in order.
        command: The command of the user's own program, found on the PATH; None for none.
    """

    own: tuple[Path, ...]
    training: LocalEnvironment | None
    prefix: Path
    search_path: tuple[Path, ...] = ()
    command: str | None = None

    def find(self, name: str, *, trains: bool) -> Path:
        """Return a program's path; raise LocalError with the command that installs it."""
        if trains and name == self.command:
            found = find_program(name, self.search_path)
            if found is None:
                raise LocalError(
                    f"spec.training.workers.template: the command {name!r} is not on the PATH; a "
                    "local run takes it from this machine, not from spec.training.image; install "
                    "it, or add its folder to the PATH"
                )
            return found
        if not trains or self.training is None:
            found = find_program(name, self.own)
            if found is None:
                raise LocalError(
                    f"the program {name!r} is neither beside this Python ({sys.executable}) nor on "
                    "the PATH; in a checkout of this project type: make install, and elsewhere: "
                    "pip install dist/*.whl, with the wheels of a release"
                )
            return found
        # The environments of .venv-3.13 are those of .venv: a framework may need another Python.
        names = dict.fromkeys((self.prefix.name, _PYTHON.sub("", self.prefix.name)))
        folders = [self.prefix.with_name(f"{own}{self.training.suffix}") / "bin" for own in names]
        found = find_program(name, folders)
        framework = frameworks.of_environment(self.training)
        if found is None and framework is not None and frameworks.is_installed(framework):
            found = find_program(name, self.own[:1])
        if found is None:
            absent = f"there is no {folders[-1] / name}"
            if framework is not None and (command := frameworks.how_to_install(framework)):
                raise LocalError(
                    f"{framework} is not installed in {sys.prefix}, and {absent}; type: {command}"
                )
            raise LocalError(
                f"{self.training.holds} needs another environment, and {absent}; in a checkout of "
                f"this project type: make {self.training.target}"
            )
        return found


def programs(
    training: LocalEnvironment | None = None,
    variables: Mapping[str, str] = os.environ,
    prefix: Path | None = None,
    command: str | None = None,
) -> Programs:
    """Return the programs of this machine; an attempt's members run in `training`, if given."""
    return Programs(
        program_folders(variables),
        training,
        prefix or Path(sys.prefix),
        path_folders(variables),
        command,
    )


def find_program(name: str, folders: Sequence[Path]) -> Path | None:
    """Return a program's path in the first folder that has it; an absolute path stays."""
    for folder in folders:
        candidate = folder / name  # joining an absolute name drops the folder
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    return None


def program_folders(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of pods' programs: that of this Python, then the PATH."""
    return (Path(sys.executable).parent, *path_folders(environment))


def path_folders(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of the PATH, in order."""
    search_path = environment.get("PATH", os.defpath)
    return tuple(Path(folder) for folder in search_path.split(os.pathsep) if folder)
