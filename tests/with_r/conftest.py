"""The jobs of examples/r on this machine: real R, TensorFlow and MXNet."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from support.processes import wait_until
from support.whole_jobs import ROOT, Manifest, WholeJob, make_digits

EXAMPLES = ROOT / "examples" / "r"
TENSORFLOW = ROOT / ".venv-tensorflow" / "bin" / "python"
MXNET = ROOT / ".venv" / "bin" / "python"


class Job(WholeJob):
    """One of the examples."""

    @property
    def results(self) -> Path:
        """The folder of what it has written."""
        (folder,) = self.workdir.glob(f"volumes/*/jobs/{self.name}-*")
        return folder

    def succeeded(self, process: "subprocess.Popen[str]") -> Manifest:
        """Return the result of a run that must succeed."""
        output, errors = process.communicate()
        assert process.returncode == 0, f"{output}{errors}{self.logs()}"
        found: Manifest = json.loads(output.splitlines()[-1])
        return found

    def wait_for(self, pattern: str) -> None:
        """Wait until the job has written a file."""
        wanted = f"volumes/*/jobs/{self.name}-*/{pattern}"
        wait_until(lambda: any(self.workdir.glob(wanted)), f"{pattern} of {self.name}")

    def accuracy(self) -> float:
        """Return the accuracy on the validation images, as the status has it."""
        document = json.loads((self.workdir / "jobs" / self.name / "job.json").read_text())
        return float(document["job"]["status"]["training"]["accuracy"]["validation"])

    def log(self, pod: str) -> str:
        """Return the log of a pod."""
        logs: Path = self.workdir / "jobs" / self.name / "logs"
        return (logs / f"{self.name}-{pod}.log").read_text()


@pytest.fixture(scope="session")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with the digits' archive."""
    folder = tmp_path_factory.mktemp("work")
    make_digits(folder)
    return folder


@pytest.fixture
def example(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Path], Job]:
    """Return an example's job, whose workers use this Python."""
    assert shutil.which("Rscript") is not None, "type: make install-r"
    monkeypatch.setenv("PATH", f"{EXAMPLES}:/usr/bin:/bin")

    def made(name: str, python: Path) -> Job:
        monkeypatch.setenv("RETICULATE_PYTHON", str(python))
        return Job(workdir, yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text()))

    return made
