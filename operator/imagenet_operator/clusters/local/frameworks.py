"""The frameworks in imagenetctl's own environment, and the commands that install one there.

In a checkout of this project, `make` installs each framework. An environment of the project's
wheels gets one by pip.
"""

import importlib.util
import shlex
import shutil
import sys
from pathlib import Path

from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.frameworks.descriptor import LocalEnvironment
from imagenet_spec.frameworks.installation import pip_command, requirements


def is_installed(framework: str) -> bool:
    """Return whether imagenetctl's own environment has a framework."""
    module = FRAMEWORKS[framework].module
    return not module or importlib.util.find_spec(module) is not None


def of_environment(environment: LocalEnvironment) -> str | None:
    """Return the framework whose environment this is; None for that of a strategy alone."""
    own = (name for name, known in FRAMEWORKS.items() if known.environment == environment)
    return next(own, None)


def is_checkout() -> bool:
    """Return whether this package runs from a checkout of the project, where `make` installs."""
    return (Path(__file__).parents[4] / "Makefile").is_file()


def how_to_install(framework: str) -> str:
    """Return the shell command that installs a framework, from the wheels of a release.

    It is empty in a checkout, or if this environment lacks imagenet-workloads. A framework that
    needs one version of Python gets an environment beside this one: it needs older packages, too.
    """
    known = FRAMEWORKS[framework]
    if is_checkout():
        return ""
    if not known.needs_python or known.environment is None:
        return pip_command(framework, program("pip"))
    wanted = requirements(framework.lower())
    beside = shlex.quote(f"{sys.prefix}{known.environment.suffix}")
    wheels = "dist/imagenet_spec-*.whl dist/imagenet_workloads-*.whl"
    install = f"{beside}/bin/pip install {wheels} {shlex.join(wanted)}"
    return f"python{known.needs_python} -m venv {beside} && {install}" if wanted else ""


def program(name: str) -> str:
    """Return what to type for a program beside this Python: its name, or its path if need be."""
    own = Path(sys.executable).with_name(name)
    if shutil.which(name) == str(own):
        return name
    here = Path.cwd()
    return str(own.relative_to(here)) if own.is_relative_to(here) else str(own)
