"""`make chaos-training`: kills trainings after each of 100 steps, and compares how they end.

One kill again: PYTHONPATH=tests python -m chaos.exact_resume --framework PyTorch --step 17
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from imagenet_spec.events import Run, read_runs
from imagenet_spec.program.train import PROCESSES, THREADS
from imagenet_workloads.checkpoint import CheckpointManifest, Position
from imagenet_workloads.train.receipts import Receipt, read_chain
from support.processes import DEADLINE_SECONDS
from support.tiny_dataset import write_dataset
from support.training_cluster import plain_environment

TABLE = re.compile(
    "(?<=<!-- make chaos-training: exact resume -->\n).*(?=<!-- end of exact resume -->)",
    re.DOTALL,
)
HEAD = """
| Framework | Kills | Equal | Steps trained again | Seconds |
|---|--:|--:|--:|--:|
"""
# The last step of an epoch has two images.
IMAGES, BATCH, EPOCHS, STEPS_OF_EPOCH = 102, 4, 4, 26
KILLS = range(1, 101)
ENVIRONMENTS = {
    "MXNet": Path(sys.prefix),
    "TensorFlow": Path(f"{sys.prefix}-tensorflow"),
    "PyTorch": Path(f"{sys.prefix}-pytorch"),
}
ARGUMENTS = [
    *("--network", "resnet", "--num-layers", "8", "--image-shape", "3,28,28"),
    *("--batch-size", str(BATCH), "--num-epochs", str(EPOCHS), "--warmup-epochs", "1"),
    *("--random-crop", "1", "--pad-size", "2", "--random-mirror", "1", "--data-nthreads", "1"),
    *("--deterministic", "1", "--disp-batches", "1"),
]
DECODERS = (THREADS, PROCESSES)
# A checkpoint every few steps.
OFTEN = ("--checkpoint-every-seconds", "0.05")
JOB = {"IMAGENET_JOB_UID": "uid", "IMAGENET_SPEC_HASH": "hash"}
_KILLER = Path(__file__).parent / "kill_after_step"

Computed = Mapping[Position, Mapping[str, str]]
"""The SHA-256 of each part of the state, at each checkpoint and 10 steps later."""


@dataclass(frozen=True)
class Training:
    """A training of one process.

    Attributes:
        framework: that trains.
        dataset: a sealed dataset.
    """

    framework: str
    dataset: Path

    def run(self, output: Path, attempt: int = 0, *more: str) -> Path:
        """Train to the end; return the attempt's folder."""
        return self._run(output, attempt, more, {}, 0)

    def run_until_killed(self, output: Path, step: int, *more: str) -> Path:
        """Train with checkpoints until SIGKILL right after a step, counted from 1."""
        path = filter(None, (str(_KILLER), os.environ.get("PYTHONPATH")))
        killer = {"PYTHONPATH": os.pathsep.join(path), "KILL_AFTER_STEP": str(step)}
        folder = self._run(output, 0, (*OFTEN, *more), killer, 128 + signal.SIGKILL)
        last = run_of(folder).progress[-1][1]
        assert steps_of(last.epoch, last.batch) == step, f"killed after {last}, not {step}"
        return folder

    def _run(
        self,
        output: Path,
        attempt: int,
        more: Sequence[str],
        environment: Mapping[str, str],
        code: int,
    ) -> Path:
        command = [
            *(str(ENVIRONMENTS[self.framework] / "bin/imagenet-train"), *ARGUMENTS, *more),
            *("--framework", self.framework, "--dataset", str(self.dataset)),
            *("--output", str(output)),
        ]
        ended = subprocess.run(
            command,
            env=plain_environment(**JOB, IMAGENET_ATTEMPT=str(attempt), **environment),
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        return output / f"attempts/r{attempt}"


def run_of(attempt: Path) -> Run:
    """What an attempt's log says."""
    (found,) = read_runs([attempt])
    return found


def steps_of(epoch: int, batch: int) -> int:
    """The steps before a position."""
    return epoch * STEPS_OF_EPOCH + batch


def computed(attempt: Path) -> Computed:
    """What a training that has ended had computed, by the receipts of all attempts.

    The last one is compared with the files of the last checkpoint.
    """
    chain = read_chain(attempt / "result.json", "checkpoints")
    last = attempt / "checkpoints" / Position(EPOCHS, 0).name
    CheckpointManifest.read(last).verify(last)
    assert chain[-1] == Receipt.of(last)
    found = {}
    for one in chain:
        parts = {**one.files, "random": one.random}
        if one.later is not None:
            parts |= {f"{part} 10 steps later": sha256 for part, sha256 in one.later.state.items()}
        found[one.position] = parts
    return found


def differences(found: Computed, expected: Computed) -> list[str]:
    """The parts of the uninterrupted training's state that another one has not computed."""
    return [
        f"{position.name}: {part}"
        for position, parts in expected.items()
        for part, sha256 in parts.items()
        if found.get(position, {}).get(part) != sha256
    ]


@dataclass(frozen=True)
class Outcome:
    """What a kill has led to.

    Attributes:
        step: after which the training was killed.
        redone: steps that were trained again.
        differences: to the uninterrupted training.
    """

    step: int
    redone: int
    differences: list[str]


def kill_and_resume(training: Training, step: int, expected: Computed) -> Outcome:
    """Kill a training after a step, resume it, and compare its end."""
    with tempfile.TemporaryDirectory() as folder:
        # Of one attempt threads decode, and of the other one programs.
        before, after = DECODERS if step % 2 else reversed(DECODERS)
        training.run_until_killed(Path(folder), step, "--decoding", before)
        ended = training.run(Path(folder), 1, *OFTEN, "--decoding", after)
        start = run_of(ended).start[1]
        redone = step - steps_of(start.epoch, start.batch)
        return Outcome(step, redone, differences(computed(ended), expected))


def play(framework: str, steps: Sequence[int]) -> tuple[str, bool]:
    """Kill a framework's training after each of some steps.

    Returns:
        the row of the table, and whether each training has ended as the uninterrupted one.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        dataset = write_dataset(Path(folder) / "data", IMAGES, validation=8, shards=1).folder
        training = Training(framework, dataset)
        expected = computed(training.run(Path(folder) / "whole"))
        outcomes = []
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for done in pool.map(lambda step: kill_and_resume(training, step, expected), steps):
                outcomes.append(done)
                said = ", ".join(done.differences) or "equal"
                print(f"{framework}, killed after step {done.step}: {said}", file=sys.stderr)
    equal = sum(not one.differences for one in outcomes)
    redone = sum(one.redone for one in outcomes)
    seconds = time.monotonic() - started
    cells = (framework, len(outcomes), equal, redone, f"{seconds:.0f}")
    return f"| {' | '.join(map(str, cells))} |\n", equal == len(outcomes)


def main() -> int:
    """Kill and compare; return 1 if a training has ended otherwise than the uninterrupted one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", choices=ENVIRONMENTS, help="only this one")
    parser.add_argument("--step", type=int, choices=KILLS, metavar="N", help="only after step N")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    options = parser.parse_args()
    frameworks = [options.framework] if options.framework else ENVIRONMENTS
    steps = KILLS if options.step is None else [options.step]
    played = [play(framework, steps) for framework in frameworks]
    table = "".join((HEAD, *(row for row, _ in played)))
    print(table)
    if options.page is not None:
        text = options.page.read_text()
        options.page.write_text(TABLE.sub(lambda _: f"{table}\n", text))
    return int(not all(is_equal for _, is_equal in played))


if __name__ == "__main__":
    sys.exit(main())
