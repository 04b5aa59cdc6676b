"""Where this machine has the programs of a pod: each framework in an environment of its own.

In a cluster an image brings a framework; here it is a Python environment beside the one that
imagenetctl runs in (`.venv-tensorflow` beside `.venv`), since the frameworks ask for different
versions of the same packages. Members of an attempt run in the environment that their job's
framework and strategy need, and everything else in imagenetctl's own.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from imagenet_operator.api import ImageNetJob, Manifest
from imagenet_operator.api.frameworks import FRAMEWORKS, LocalEnvironment
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local.process import find_program, program_folders
from imagenet_operator.manifests import labels


def of_job(job: ImageNetJob) -> LocalEnvironment | None:
    """The environment that a job trains in; None for imagenetctl's own."""
    training = job.spec.training
    return FRAMEWORKS[training.framework].local_environment(training.strategy.kind)


def of_framework(framework: str) -> LocalEnvironment | None:
    """The environment that uses what a framework has trained; None for imagenetctl's own.

    Raises:
        LocalError: No such framework is known.
    """
    if framework not in FRAMEWORKS:
        raise LocalError(f"framework {framework!r} is not known; known are {', '.join(FRAMEWORKS)}")
    return FRAMEWORKS[framework].environment


def is_member(pod: Manifest) -> bool:
    """Whether a pod (or the template of one) trains, and does not prepare."""
    return labels.ATTEMPT in (pod.get("metadata", {}).get("labels") or {})


@dataclass(frozen=True)
class Programs:
    """Where programs are looked for.

    Attributes:
        own: The folders of imagenetctl's own environment and of the PATH, in order.
        training: The environment of an attempt's members; None for the same.
        prefix: The folder of imagenetctl's own environment, beside which the others are.
    """

    own: tuple[Path, ...]
    training: LocalEnvironment | None
    prefix: Path

    def find(self, name: str, *, trains: bool) -> Path:
        """The executable of a program.

        Args:
            name: A pod's command, such as `imagenet-train`.
            trains: Whether the pod is a member of an attempt.

        Raises:
            LocalError: It is not installed; what to type.
        """
        if not trains or self.training is None:
            found = find_program(name, self.own)
            if found is None:
                raise _missing(name)
            return found
        folder = self.prefix.with_name(f"{self.prefix.name}{self.training.suffix}") / "bin"
        found = find_program(name, [folder])
        if found is None:
            raise _missing_environment(name, folder, self.training)
        return found


def programs(
    training: LocalEnvironment | None = None,
    variables: Mapping[str, str] = os.environ,
    prefix: Path | None = None,
) -> Programs:
    """Where programs are on this machine.

    Args:
        training: The environment of an attempt's members; None for imagenetctl's own.
        variables: The environment of imagenetctl, for its PATH.
        prefix: The folder of imagenetctl's own environment, if not the one that runs.
    """
    return Programs(program_folders(variables), training, prefix or Path(sys.prefix))


def _missing(program: str) -> LocalError:
    return LocalError(
        f"the program {program!r} is neither beside this Python ({sys.executable}) nor on the "
        "PATH; in a checkout of this project type: pip install './workloads[mxnet]'"
    )


def _missing_environment(program: str, folder: Path, environment: LocalEnvironment) -> LocalError:
    return LocalError(
        f"{environment.holds} has an environment of its own, and there is no {folder / program}; "
        f"in a checkout of this project type: make {environment.target}"
    )
