"""How pip installs a framework, from the requirements of the distribution imagenet-workloads."""

import shlex
from importlib import metadata

from imagenet_spec.frameworks import FRAMEWORKS

WORKLOADS = "imagenet-workloads"
"""The distribution whose extras are the frameworks, each by its name in lower case."""


def requirements(extra: str) -> list[str]:
    """Return the requirements of an extra; none without the distribution or the extra."""
    try:
        required = metadata.requires(WORKLOADS) or []
    except metadata.PackageNotFoundError:
        return []
    # As `graphviz<0.9,>=0.8.1; extra == 'mxnet'`.
    parts = (line.partition(";") for line in required)
    return [name.strip() for name, _, rest in parts if rest.strip() == f"extra == '{extra}'"]


def pip_command(framework: str, pip: str = "pip") -> str:
    """Return the pip commands for a framework, as one line; empty without imagenet-workloads."""
    wanted, alone = requirements(framework.lower()), FRAMEWORKS[framework].without_dependencies
    commands = [["install", *wanted]] if wanted else []
    commands += [["install", "--no-deps", alone]] if wanted and alone else []
    return " && ".join(shlex.join([pip, *command]) for command in commands)
