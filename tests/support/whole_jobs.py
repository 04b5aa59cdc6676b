"""Whole jobs of every strategy by `imagenetctl run`, each in the environment that it needs."""

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import yaml

from imagenet_operator.scaling import variants
from imagenet_spec.resource.compatibility import COMBINATIONS
from imagenet_spec.resource.strategies.parameter_server import ParameterServer
from support.processes import processes_with, program_of, wait_until

Manifest = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits.yaml"

KV_STORES = get_args(ParameterServer.model_fields["kv_store"].annotation)
"""MXNet's, which are all that a parameter server has."""

STRATEGIES = sorted(
    {f"{row.strategy}:{row.framework}" for row in COMBINATIONS if row.strategy != "parameterServer"}
    | {f"parameterServer:{kv_store}" for kv_store in KV_STORES}
)
"""Every strategy with every framework or kvstore that it has, as `imagenetctl scale` calls them."""

MANY_WORKERS = [name for name in STRATEGIES if name.partition(":")[0] not in ("single", "mirrored")]
"""Those with more than one worker."""


def digits(strategy: str, name: str) -> Manifest:
    """The example of handwritten digits with another strategy, under its own name."""
    manifest = variants.applied(
        variants.read(strategy), yaml.safe_load(DIGITS.read_text(encoding="utf-8"))
    )
    manifest = copy.deepcopy(manifest)
    manifest["metadata"]["name"] = name
    if strategy not in MANY_WORKERS:
        manifest["spec"]["training"]["workers"] = {"replicas": 1}
    return manifest


def make_digits(workdir: Path) -> None:
    """Put the digits' archive where the example looks for it."""
    archive = workdir / "volumes" / "raw" / "digits.tar"
    command = [sys.executable, "-m", "imagenet_workloads.commands.digits", archive]
    subprocess.run([*map(str, command)], check=True, capture_output=True)


class WholeJob:
    """One job on this machine.

    Args:
        workdir: The working directory, which jobs of other names may share.
        manifest: The job.
    """

    options: tuple[str, ...] = ()
    """Further options of `imagenetctl run`."""

    def __init__(self, workdir: Path, manifest: Manifest) -> None:
        self.workdir, self.manifest = workdir, manifest
        self.name = manifest["metadata"]["name"]
        self._file = workdir / f"{self.name}.yaml"
        workdir.mkdir(parents=True, exist_ok=True)
        self._file.write_text(yaml.safe_dump(manifest))

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """`imagenetctl run`, killed at the latest when the block is left."""
        program = Path(sys.executable).parent / "imagenetctl"
        command = [program, "run", self._file, "--workdir", self.workdir, "--output", "json"]
        command += self.options
        with subprocess.Popen(
            [*map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        ) as process:
            try:
                yield process
            finally:
                process.kill()
        wait_until(lambda: not self.left(), "every process of the job has gone")

    def run(self) -> Manifest:
        """Run it to its end; what `finished` returns."""
        with self.running() as process:
            return self.finished(process)

    def finished(self, process: subprocess.Popen[str]) -> Manifest:
        """The result of a run that must succeed, with what the training wrote as `written`."""
        output, errors = process.communicate()
        assert process.returncode == 0, f"{output}{errors}{self.logs()}"
        result: Manifest = json.loads(output.splitlines()[-1])
        written = json.loads((Path(result["model"]["folder"]) / "result.json").read_text())
        return {**result, "written": written}

    def wait_for_checkpoint(self, attempt: int) -> None:
        """Wait until an attempt has written a checkpoint."""
        pattern = f"volumes/*/jobs/{self.name}-*/attempts/r{attempt}/checkpoints/epoch-*"
        wait_until(lambda: any(self.workdir.glob(pattern)), f"a checkpoint of attempt {attempt}")

    def training(self) -> Manifest:
        """The recorded status of its training, which may be empty."""
        path = self.workdir / "jobs" / self.name / "job.json"
        job = json.loads(path.read_text())["job"] if path.exists() else {}
        found: Manifest = job.get("status", {}).get("training", {})
        return found

    def program(self, pod: str) -> int:
        """The process id of a pod's program."""
        return program_of(f"{self.name}-{pod}", self.workdir)

    def address(self, pod: str) -> tuple[str, int]:
        """Where a pod serves its metrics."""
        variables = Path(f"/proc/{self.program(pod)}/environ").read_bytes().split(b"\0")
        found = dict(item.decode().split("=", 1) for item in variables if b"=" in item)
        return found["POD_IP"], int(found["IMAGENET_METRICS_PORT"])

    def logs(self) -> str:
        """The ends of the pods' logs, for the message of a test that fails."""
        folder = self.workdir / "jobs" / self.name / "logs"
        return "".join(
            f"\n=== {path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted(folder.glob("*.log"))
        )

    def left(self) -> list[int]:
        """The processes that still live."""
        return processes_with(f"{self.workdir}/jobs/{self.name}/")
