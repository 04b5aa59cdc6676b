"""A shell in which a story runs the commands of the documentation.

It is like a new user's: in a clone, with the environment of `make install`. Its helm and kubectl
use the right cluster, and the story's namespace by default.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from kind.kubectl import Kubectl
from support import chart


@dataclass(frozen=True)
class Terminal:
    """A shell.

    Attributes:
        folder: The working directory; files that commands create are there.
        environment: Its variables.
    """

    folder: Path
    environment: Mapping[str, str]

    def type(self, command: str) -> None:
        """Run a line, which must succeed; its output is the story's."""
        print(f"$ {command}", flush=True)
        subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environment, check=True, timeout=600
        )

    def ended(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a line, which may fail; return how it ended, and all that it printed."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        print(f"$ {command}\n{done.stdout}exit code {done.returncode}", flush=True)
        return done

    @contextmanager
    def beside(self, command: str) -> Iterator[Path]:
        """Run a line that never ends while the block runs; give the file of what it prints."""
        printed = self.folder / "printed"
        with printed.open("w") as file:
            # `exec` replaces the shell, so the signal reaches the command.
            running = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdout=file,
            )
        try:
            yield printed
        finally:
            running.terminate()
            running.wait()
            print(f"$ {command}\n{printed.read_text()}", flush=True)


def open_terminal(kubectl: Kubectl, helm: str, folder: Path) -> Terminal:
    """Open a shell.

    Args:
        kubectl: For the namespace that it means.
        helm: The program.
        folder: An empty one, for all that belongs to it.
    """
    clone = folder / "clone"
    shutil.copytree(chart.REPOSITORY / "examples", clone / "examples")
    shutil.copytree(chart.FOLDER, clone / "charts" / chart.FOLDER.name)
    (clone / ".venv").symlink_to(sys.prefix)
    configuration = yaml.safe_load(kubectl.kubeconfig.read_text())
    for context in configuration["contexts"]:
        context["context"]["namespace"] = kubectl.namespace
    kubeconfig = folder / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(yaml.safe_dump(configuration))
    programs = [str(Path(program).parent) for program in (kubectl.program, helm)]
    path = os.pathsep.join([*programs, os.environ["PATH"]])
    return Terminal(clone, {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig)})
