"""Prints what a distribution requires, so that an image installs it before the sources come.

The layer of the dependencies, gigabytes with CUDA, then stays as it is while the sources change.

    python images/requirements.py workloads/pyproject.toml mxnet
"""

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path


def requirements(project_file: Path, extras: Sequence[str]) -> list[str]:
    """The requirements of a project and of some of its extras, as its pyproject.toml has them."""
    project = tomllib.loads(project_file.read_text())["project"]
    optional = project.get("optional-dependencies", {})
    return [*project["dependencies"], *(line for extra in extras for line in optional[extra])]


if __name__ == "__main__":
    print("\n".join(requirements(Path(sys.argv[1]), sys.argv[2:])))
