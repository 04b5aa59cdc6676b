"""The way without a clone in docs/running-locally.md, from an empty environment to a network.

    python3.13 tests/pythons/wheels.py .venv-3.13

Builds the wheels with the tools of the named environment, and runs the page's lines for MXNet in an
environment of the Python that runs this. What the wheels need comes at the versions in
constraints/.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "running-locally.md"
CONSTRAINTS = ("operator", "workloads", "numpy")


def main(tools: Path) -> None:
    """Install and train.

    Args:
        tools: An environment that `make install` has made.
    """
    folder = REPOSITORY / "build" / f"wheels-{sys.version_info.major}.{sys.version_info.minor}"
    environment = folder / "environment"
    packages = [REPOSITORY / name for name in ("spec", "operator", "workloads")]
    # Wheels of another version would be installed as well.
    shutil.rmtree(folder / "dist", ignore_errors=True)
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder / "dist")
    run([tools.absolute() / "bin/pip", "wheel", *options, *packages])
    run([sys.executable, "-m", "venv", "--clear", environment])
    section = PAGE.read_text().partition("## Without a clone\n")[2].partition("\n## ")[0]
    lines, _ = re.findall(r"^```\n(.+?)^```$", section, re.MULTILINE | re.DOTALL)
    pins = " ".join(str(REPOSITORY / "constraints" / f"{name}.txt") for name in CONSTRAINTS)
    variables = {
        **os.environ,
        "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_CONSTRAINT": pins,
        "OMP_NUM_THREADS": "1",
    }
    for line in lines.splitlines():
        print(f"\n$ {line}", flush=True)
        subprocess.run(["bash", "-c", line], cwd=folder, env=variables, check=True)


def run(command: list[str | Path]) -> None:
    """Run a program in the checkout."""
    subprocess.run(command, cwd=REPOSITORY, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
