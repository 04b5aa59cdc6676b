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
from imagenet_operator.clusters.errors import LocalError
from imagenet_operator.clusters.local.process import find_program, program_folders
from imagenet_operator.manifests import labels


@dataclass(frozen=True)
class Environment:
    """An environment beside imagenetctl's own.

    Attributes:
        suffix: What its folder's name has beyond that of imagenetctl's own.
        holds: What it is for, as messages say it.
        target: What makes it, for `make`.
    """

    suffix: str
    holds: str
    target: str


HOROVOD = Environment("-horovod", "Horovod with MXNet", "install-horovod")
TENSORFLOW = Environment("-tensorflow", "TensorFlow", "install-tensorflow")


def of_job(job: ImageNetJob) -> Environment | None:
    """The environment that a job trains in; None for imagenetctl's own."""
    training = job.spec.training
    if training.framework == "TensorFlow":
        return TENSORFLOW
    return HOROVOD if training.strategy.kind == "horovod" else None


def of_framework(framework: str) -> Environment | None:
    """The environment that uses what a framework has trained; None for imagenetctl's own."""
    return TENSORFLOW if framework == "TensorFlow" else None


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
    training: Environment | None
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
    training: Environment | None = None,
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


def _missing_environment(program: str, folder: Path, environment: Environment) -> LocalError:
    return LocalError(
        f"{environment.holds} has an environment of its own, and there is no {folder / program}; "
        f"in a checkout of this project type: make {environment.target}"
    )
