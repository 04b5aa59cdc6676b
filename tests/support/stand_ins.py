"""`imagenetctl` in an environment whose workloads are stand-ins: the real one takes seconds to
import MXNet, and fails only when it wants to.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support import job_table
from support.processes import DEADLINE_SECONDS, processes_with, wait_until

Manifest = dict[str, Any]
PROGRAMS = ("index", "pack", "seal", "train")
MEMBERS = ("train", "slots", "rendezvous")
"""The programs of an environment that only trains."""
SMALL: Manifest = {
    "source": {"volume": {"claimName": "raw", "path": "digits.tar"}},
    "volume": {"size": "1Gi"},
}
KEY = "0123456789abcdef0123456789abcdef"
"""What the stand-in for index calls the dataset."""

CALL = "import sys; from imagenet_operator.cli.main import main; sys.exit(main())"


@dataclass
class Finished:
    """A command that has ended."""

    code: int
    output: str
    errors: str

    @property
    def result(self) -> Manifest:
        """The last line of --output json."""
        last: Manifest = json.loads(self.output.splitlines()[-1])
        return last


class Running:
    """A command that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def finish(self) -> Finished:
        output, errors = self.process.communicate(timeout=DEADLINE_SECONDS)
        return Finished(self.process.returncode, output, errors)


class Workplace:
    """A folder with an environment, a working directory and a manifest.

    Attributes:
        workdir: The working directory of `imagenetctl run`.
        manifest: The file of the job's manifest.
        python: The interpreter of the environment.
        behaviour: What the stand-ins do, by role.
        variables: Further ones of the environment.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.workdir = folder / "work"
        self.manifest = folder / "job.yaml"
        self.python = self._make_environment()
        self.behaviour: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        (self.workdir / "volumes" / "raw").mkdir(parents=True)
        self.write(job())

    def _make_environment(self) -> Path:
        """A virtual environment that shares the packages of this one, but not its programs."""
        prefix = self._folder / "environment"
        (prefix / "bin").mkdir(parents=True)
        shutil.copy(Path(sys.prefix) / "pyvenv.cfg", prefix)
        (prefix / "lib").symlink_to(Path(sys.prefix) / "lib")
        python = prefix / "bin" / "python"
        python.symlink_to(Path(sys.executable).resolve())
        for name in PROGRAMS:
            self._install(self.program(name), python)
        return python

    @staticmethod
    def _install(program: Path, python: Path) -> None:
        source = Path(__file__).with_name("stand_in_program.py").read_text()
        program.write_text(f"#!{python} -IS\n{source}")
        program.chmod(0o755)

    def add_environment(self, suffix: str) -> Path:
        """Make an environment beside, with the programs of members; its folder of programs."""
        folder = self._folder / f"environment{suffix}" / "bin"
        folder.mkdir(parents=True)
        for name in MEMBERS:
            self._install(folder / f"imagenet-{name}", self.python)
        return folder

    def program(self, name: str) -> Path:
        """One of the stand-ins."""
        return self._folder / "environment" / "bin" / f"imagenet-{name}"

    def write(self, manifest: Manifest) -> None:
        """Write the job's manifest."""
        self.manifest.write_text(yaml.safe_dump(manifest))

    def start(self, *arguments: str | Path) -> Running:
        """Start `imagenetctl` with these arguments."""
        return self.start_python(CALL, *arguments)

    def environment(self) -> dict[str, str]:
        """The variables of a program of this place."""
        return {
            **os.environ,
            "STAND_IN": json.dumps(self.behaviour),
            "STAND_IN_FOLDER": str(self._folder),
            "STAND_IN_SHARED": "yes",
            "PATH": "/usr/bin:/bin",
            **self.variables,
        }

    def start_python(self, program: str, *arguments: str | Path) -> Running:
        """Start a Python program with these arguments."""
        return Running(
            subprocess.Popen(
                [self.python, "-c", program, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=self.environment(),
                cwd=self._folder,
            )
        )

    def start_run(self, *options: str) -> Running:
        """Start `imagenetctl run` of the manifest."""
        return self.start("run", self.manifest, "--workdir", self.workdir, *options)

    def run(self, *options: str) -> Finished:
        """Run the manifest to its end."""
        return self.start_run(*options).finish()

    def started(self) -> list[Manifest]:
        """What the programs wrote when they started, in order."""
        path = self._folder / "started"
        text = path.read_text() if path.exists() else ""
        # A line that is being written can be seen in part.
        whole, _, _ = text.rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def pods(self) -> list[str]:
        """The names of the pods that have started."""
        return [record["POD_NAME"] for record in self.started()]

    def wait_for_pod(self, name: str) -> Manifest:
        """Wait until a pod has started; what it wrote."""

        def found() -> Manifest | None:
            return next((item for item in self.started() if item["POD_NAME"] == name), None)

        record = wait_until(found, f"pod {name} starts")
        assert record is not None
        return record

    def wait_for_record_of_attempt(self, number: int, job: str = "digits") -> None:
        """Wait until the status has an attempt: its pods may run before that."""

        def is_recorded() -> bool:
            training = self.job_file(job)["job"].get("status", {}).get("training")
            return training is not None and training["attempt"] == number

        wait_until(is_recorded, f"attempt {number} is recorded")

    def release(self) -> None:
        """Let programs go on that hold."""
        (self._folder / "release").touch()

    def job_file(self, name: str = "digits") -> Manifest:
        """What the working directory knows of the job."""
        document: Manifest = json.loads((self.workdir / "jobs" / name / "job.json").read_text())
        return document

    def left(self) -> list[int]:
        """The processes of pods that still live."""
        return processes_with(f"STAND_IN_FOLDER={self._folder}\0")


def job(**changes: Any) -> Manifest:
    """A job for the stand-ins: two workers and a server."""
    changes.setdefault("dataset", SMALL)
    manifest = job_table.manifest(**changes)
    manifest["metadata"] = {"name": manifest["metadata"]["name"]}
    servers = manifest["spec"]["training"]["strategy"].get("parameterServer")
    if servers is not None:
        servers["servers"] = {"replicas": 1}
    return manifest


def job_of_tensorflow(strategy: Manifest) -> Manifest:
    """A job for TensorFlow: two workers."""
    dataset = {**SMALL, "preprocessing": {"format": "TFRecord"}}
    return job(dataset=dataset, training={"framework": "TensorFlow", "strategy": strategy})
